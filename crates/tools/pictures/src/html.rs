//! Functions that assemble a web page from pictures and text. The page is a single file that works
//! offline. It supports light and dark color schemes, small screens and printing.

/// JavaScript code for pages that show how a model processes a text. It defines the function
/// `showModel(root, source, text)`.
pub const VIEW_SCRIPT: &str = include_str!("view.js");

/// The style sheet for the elements that [`VIEW_SCRIPT`] creates.
pub const VIEW_STYLE: &str = include_str!("view.css");

/// Escapes `text` for use between tags or in a double-quoted attribute.
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

/// Returns a complete HTML page. `title` is plain text, `style` is CSS that is appended to the
/// style sheet of all pages, and `body` is the HTML of the page's `<main>` element.
pub fn page(title: &str, style: &str, body: &str) -> String {
    let style = include_str!("page.css").to_owned() + style;
    let values = [
        ("title", &*escape(title)),
        ("style", &style),
        ("body", body),
    ];
    filled(include_str!("page.html"), &values)
}

/// Replaces placeholders such as `{title}` in `text` with values. Each element of `values` consists
/// of the name of a placeholder and its value. The placeholders must occur in `text` in the same
/// order as in `values`. Each placeholder is replaced once, and the inserted values aren't searched
/// for placeholders.
///
/// # Panics
///
/// Panics if `text` doesn't contain all of the placeholders in this order.
pub fn filled(text: &str, values: &[(&str, &str)]) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    for (name, value) in values {
        let parts = rest.split_once(&format!("{{{name}}}"));
        let (before, after) = parts.unwrap_or_else(|| {
            panic!("the placeholder {{{name}}} is missing from the template, or it occurs too early, before a placeholder that must precede it")
        });
        filled += before;
        filled += value;
        rest = after;
    }
    filled + rest
}

/// Returns the HTML for a picture. Because the feature `draw` is disabled, the HTML is a paragraph
/// that contains the picture's title.
#[cfg(not(feature = "draw"))]
pub fn figure(picture: &crate::Picture) -> String {
    format!("<p>{}</p>\n", escape(picture.title()))
}

/// Returns the HTML for a picture, which is scaled to the width of the page. Screen readers read
/// the picture's title aloud.
#[cfg(feature = "draw")]
pub fn figure(picture: &crate::Picture) -> String {
    let title = escape(picture.title());
    let svg = picture.svg();
    let (size, rest) = svg
        .strip_prefix("<svg ")
        .and_then(|svg| svg.split_once('>'))
        .expect("an SVG begins with the tag <svg>");
    let sizes: Vec<&str> = ["width", "height"]
        .iter()
        .filter_map(|name| size.split(&format!(" {name}=\"")).nth(1)?.split('"').next())
        .collect();
    format!(
        "<div class=\"picture\" tabindex=\"0\"><svg {size} viewBox=\"0 0 {}\" role=\"img\" aria-label=\"{title}\">{rest}</div>\n",
        sizes.join(" ")
    )
}

#[cfg(all(test, feature = "draw"))]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_complete_and_refers_to_nothing_outside() {
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
