//! The frame of a self-contained page: no network, light and dark, a phone or paper.

/// The script of the view of a model at work on a text: `showModel(root, source, text)`.
pub const VIEW_SCRIPT: &str = include_str!("view.js");

/// The view's style.
pub const VIEW_STYLE: &str = include_str!("view.css");

/// `text` between tags or in an attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            character => escaped.push(character),
        }
    }
    escaped
}

/// A whole page: `body` is its main part; `style` is added to the common style.
pub fn page(title: &str, style: &str, body: &str) -> String {
    let style = include_str!("page.css").to_owned() + style;
    let values = [
        ("title", &*escape(title)),
        ("style", &style),
        ("body", body),
    ];
    filled(include_str!("page.html"), &values)
}

/// A page's text with values replacing their names, `{title}`, in the order of the names.
///
/// # Panics
/// If it has not these names in this order.
pub fn filled(text: &str, values: &[(&str, &str)]) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    for (name, value) in values {
        let parts = rest.split_once(&format!("{{{name}}}"));
        let (before, behind) = parts.unwrap_or_else(|| panic!("the page has no {{{name}}}"));
        filled += before;
        filled += value;
        rest = behind;
    }
    filled + rest
}

/// A picture in the page: its title.
#[cfg(not(feature = "draw"))]
pub fn figure(picture: &crate::Picture) -> String {
    format!("<p>{}</p>\n", escape(picture.title()))
}

/// A picture in the page, as wide as there is room; its title is read out.
#[cfg(feature = "draw")]
pub fn figure(picture: &crate::Picture) -> String {
    let title = escape(picture.title());
    let svg = picture.svg();
    let (size, rest) = svg
        .strip_prefix("<svg ")
        .and_then(|svg| svg.split_once('>'))
        .expect("an SVG begins with its tag");
    let sizes: Vec<&str> = ["width", "height"]
        .iter()
        .filter_map(|name| size.split(&format!(" {name}=\"")).nth(1)?.split('"').next())
        .collect();
    format!(
        "<figure tabindex=\"0\"><svg {size} viewBox=\"0 0 {}\" role=\"img\" aria-label=\"{title}\">{rest}</figure>\n",
        sizes.join(" ")
    )
}

#[cfg(all(test, feature = "draw"))]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_whole_and_names_nothing_outside() {
        let page = page(
            "a < b",
            "",
            &figure(&crate::windows("t", &["a", "b"], &[0], 1)),
        );
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(page.contains("<title>a &lt; b</title>") && page.contains("viewBox=\"0 0 "));
        let outside = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http") && !outside.contains("src="));
    }
}
