//! Compares the settings of two training runs. The settings are converted to lists of names and
//! values, so that an error message can contain the name of the first setting that differs.

use serde::Serialize;
use serde_json::Value;

/// Returns the names and the values of the fields of a struct. For a field of a nested struct, the
/// name is a path, such as `config.optimizer.lr`. Fields whose value is `None` are omitted.
pub(crate) fn fields(whole: &impl Serialize) -> Vec<(String, String)> {
    fn add(name: String, value: Value, fields: &mut Vec<(String, String)>) {
        match value {
            Value::Null => {}
            Value::Object(object) => object.into_iter().for_each(|(key, value)| {
                let name = match name.is_empty() {
                    true => key,
                    false => format!("{name}.{key}"),
                };
                add(name, value, fields);
            }),
            value => fields.push((name, value.to_string())),
        }
    }
    let mut fields = Vec::new();
    let whole = serde_json::to_value(whole).expect("plain data is valid JSON");
    add(String::new(), whole, &mut fields);
    fields
}

/// Compares two lists of fields. Returns the name of the first field that differs, its value in
/// `one`, and its value in `other`, or `None` if the lists don't differ. If a list doesn't contain
/// the field, its value is reported as "nothing".
pub(crate) fn difference(
    one: &[(String, String)],
    other: &[(String, String)],
) -> Option<(String, String, String)> {
    let value = |fields: &[(String, String)], name: &str| {
        let field = fields.iter().find(|(other, _)| other == name);
        field.map_or("nothing".to_owned(), |(_, value)| value.clone())
    };
    let names = one.iter().chain(other).map(|(name, _)| name);
    names
        .map(|name| (name.clone(), value(one, name), value(other, name)))
        .find(|(_, one, other)| one != other)
}
