//! The frame of a self-contained page: no network, light and dark, a phone or paper.

use ndarray::ArrayRef2;

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

/// Rows and columns of a product that are shown at most, and terms of a sum.
const MOST: usize = 8;

/// The product of `a` (rows, inner) and `b` (inner, columns). The number that a reader chooses in
/// the result marks its row and its column, and shows their sum; this takes no script.
///
/// # Panics
/// If the shapes don't fit.
pub fn product(title: &str, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) -> String {
    let title = escape(title);
    let first = |count: usize| 0..count.min(MOST);
    let table =
        |class: &str, rows: usize, columns: usize, cell: &dyn Fn(usize, usize) -> String| {
            let mut table = format!("<table class=\"{class}\">");
            for row in first(rows) {
                table += "<tr>";
                for column in first(columns) {
                    let cell = cell(row, column);
                    table += &format!("<td class=\"r{row} c{column}\">{cell}</td>");
                }
                table += if columns > MOST {
                    "<td>…</td></tr>"
                } else {
                    "</tr>"
                };
            }
            table
                + if rows > MOST {
                    "<tr><td>…</td></tr></table>"
                } else {
                    "</table>"
                }
        };
    let number = |x: f32| format!("{x:.4}");
    let result = a.dot(b);
    let choice = |row: usize, column: usize| {
        let total = number(result[[row, column]]);
        let factors = a.row(row).into_iter().zip(b.column(column)).take(MOST);
        let terms: Vec<String> = factors.map(|(a, b)| format!("{a:.4} · {b:.4}")).collect();
        let rest = if a.ncols() > MOST { " + …" } else { "" };
        let checked = if (row, column) == (0, 0) {
            " checked"
        } else {
            ""
        };
        let (at, sum) = (
            format!("row {}, column {}", row + 1, column + 1),
            terms.join(" + "),
        );
        format!(
            "<label><input type=\"radio\" name=\"{title}\" aria-label=\"{at}: {total}\"{checked}>{total}</label>\
             <span class=\"sum\">{at}: {sum}{rest} = {total}</span>"
        )
    };
    let (inner, (rows, columns)) = (a.ncols(), result.dim());
    format!(
        "<figure class=\"product\" tabindex=\"0\"><figcaption>{title}. Choose a number of the result to see its sum.</figcaption>\
         <div>{} @ {} = {}</div></figure>\n",
        table("a", rows, inner, &|row, column| number(a[[row, column]])),
        table("b", inner, columns, &|row, column| number(b[[row, column]])),
        table("c", rows, columns, &choice),
    )
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
    fn a_chosen_number_of_a_product_has_its_sum() {
        let product = product(
            "x < y",
            &ndarray::array![[1.0, 2.0], [3.0, 4.0]],
            &ndarray::array![[0.5], [0.25]],
        );
        assert!(product.contains("row 2, column 1: 3.0000 · 0.5000 + 4.0000 · 0.2500 = 2.5000"));
        assert_eq!(product.matches(" checked").count(), 1);
        assert!(product.contains("<figcaption>x &lt; y."));
        let long = ndarray::Array2::ones((9, 9));
        let product = super::product("long", &long, &long);
        assert!(product.contains("+ … = 9.0000") && !product.contains("c8"));
    }

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
