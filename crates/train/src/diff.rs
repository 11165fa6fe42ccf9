//! Converts settings to lists of names and values, in order to find the first difference between
//! two runs.

use serde::Serialize;
use serde_json::Value;

/// Returns the name and the value of each field of `whole`. The name of a nested field is a path,
/// such as `config.optimizer.lr`. Fields that are `None` are left out.
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

/// Returns the name of the first field that differs between two lists, and its value in each of
/// them. If a list doesn't contain the field, the value is "nothing".
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
