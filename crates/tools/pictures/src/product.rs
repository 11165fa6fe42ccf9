//! Generates HTML that shows a matrix product. The user can choose an element of the result to see
//! how it is computed. The HTML works without JavaScript.

use ndarray::ArrayRef2;

use crate::html::escape;

/// Maximum number of rows and columns of a matrix, and maximum number of products in a sum, that
/// are shown. Larger matrices and longer sums end with an ellipsis. For each of these rows and
/// columns, `page.css` contains a rule that highlights it.
const MAX_SHOWN: usize = 8;

/// Returns the HTML that shows the product of `a`, of shape (rows, inner), and `b`, of shape
/// (inner, columns). When the user chooses an element of the result, the page highlights the row of
/// `a` and the column of `b` from which it is computed, and shows the sum of products.
///
/// # Panics
///
/// Panics if the number of columns of `a` differs from the number of rows of `b`.
pub fn product(title: &str, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) -> String {
    let (title, result) = (escape(title), a.dot(b));
    let numbers = |matrix: &ArrayRef2<f32>, class: &str| {
        table(class, matrix.dim(), |place| format!("{:.4}", matrix[place]))
    };
    let choice = |(row, column): (usize, usize)| {
        let total = format!("{:.4}", result[(row, column)]);
        let factors = a.row(row).into_iter().zip(b.column(column)).take(MAX_SHOWN);
        let mut terms: Vec<String> = factors.map(|(a, b)| format!("{a:.4} · {b:.4}")).collect();
        if a.ncols() > MAX_SHOWN {
            terms.push("…".to_owned());
        }
        let (at, sum) = (
            format!("row {}, column {}", row + 1, column + 1),
            terms.join(" + "),
        );
        let checked = if (row, column) == (0, 0) {
            " checked"
        } else {
            ""
        };
        format!(
            "<label><input type=\"radio\" name=\"{title}\" aria-label=\"{at}: {total}\"{checked}>{total}</label>\
             <span class=\"sum\">{at}: {sum} = {total}</span>"
        )
    };
    format!(
        "<div class=\"product\" tabindex=\"0\" role=\"group\" aria-label=\"{title}\"><p>Choose an element of the result to see how it is computed.</p>\
         <div>{} @ {} = {}</div></div>\n",
        numbers(a, "a"),
        numbers(b, "b"),
        table("c", result.dim(), choice),
    )
}

/// Returns an HTML table of the first [`MAX_SHOWN`] rows and columns of a matrix. If the matrix has
/// more columns, each row of the table ends with an ellipsis. If it has more rows, the table ends
/// with a row that contains an ellipsis. The function `cell` returns the HTML of an element.
fn table(
    class: &str,
    (rows, columns): (usize, usize),
    cell: impl Fn((usize, usize)) -> String,
) -> String {
    let more = "<td>…</td>";
    let mut table = format!("<table class=\"{class}\">");
    for row in 0..rows.min(MAX_SHOWN) {
        table += "<tr>";
        for column in 0..columns.min(MAX_SHOWN) {
            let cell = cell((row, column));
            table += &format!("<td class=\"r{row} c{column}\">{cell}</td>");
        }
        table += if columns > MAX_SHOWN { more } else { "" };
        table += "</tr>";
    }
    if rows > MAX_SHOWN {
        table += &format!("<tr>{more}</tr>");
    }
    table + "</table>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_element_of_a_product_shows_its_sum() {
        let product = product(
            "x < y",
            &ndarray::array![[1.0, 2.0], [3.0, 4.0]],
            &ndarray::array![[0.5], [0.25]],
        );
        assert!(product.contains("row 2, column 1: 3.0000 · 0.5000 + 4.0000 · 0.2500 = 2.5000"));
        assert_eq!(product.matches(" checked").count(), 1);
        assert!(product.contains("aria-label=\"x &lt; y\""));
        let long = ndarray::Array2::ones((9, 9));
        let product = super::product("long", &long, &long);
        assert!(product.contains("+ … = 9.0000") && !product.contains("c8"));
    }
}
