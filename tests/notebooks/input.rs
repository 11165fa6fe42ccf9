//! Values that a reader may change: numbers, texts, and matrices written as rows,
//! `0.4 0.1; 0.5 0.8`.

use anyhow::{Context, Result, ensure};
use ndarray::Array2;

/// A value of a notebook that has a name and a default.
pub trait Input: Sized {
    /// What bounds speak of: a number itself, a text's characters, a matrix's numbers.
    type Size: PartialOrd;

    /// How large it is.
    fn size(&self) -> Self::Size;

    /// From what a reader writes.
    ///
    /// # Errors
    /// It is no such value.
    fn read(text: &str) -> Result<Self>;

    /// As a reader would write it.
    fn written(&self) -> String;

    /// As Rust has it.
    fn code(text: &str) -> String {
        text.to_owned()
    }
}

macro_rules! number {
    ($($number:ty: $what:literal),*) => {$(
        impl Input for $number {
            type Size = Self;

            fn size(&self) -> Self {
                *self
            }

            fn read(text: &str) -> Result<Self> {
                text.trim().parse().with_context(|| format!("`{text}` is not {}", $what))
            }

            fn written(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

number!(u64: "a whole number", usize: "a whole number", f32: "a number", f64: "a number");

impl Input for String {
    type Size = usize;

    fn size(&self) -> usize {
        self.chars().count()
    }

    fn read(text: &str) -> Result<Self> {
        Ok(text.to_owned())
    }

    fn written(&self) -> String {
        self.clone()
    }

    fn code(text: &str) -> String {
        format!("{text:?}.to_owned()")
    }
}

impl Input for Array2<f32> {
    type Size = usize;

    fn size(&self) -> usize {
        self.len()
    }

    fn read(text: &str) -> Result<Self> {
        let mut values = Vec::new();
        let rows = text.split(';').filter(|row| !row.trim().is_empty());
        let mut shape = (0, 0);
        for row in rows {
            let before = values.len();
            for number in row.split_whitespace() {
                values.push(f32::read(number)?);
            }
            let columns = values.len() - before;
            ensure!(
                shape.0 == 0 || columns == shape.1,
                "a row has {columns} numbers, the one before {}",
                shape.1
            );
            shape = (shape.0 + 1, columns);
        }
        ensure!(!values.is_empty(), "a matrix has numbers");
        Ok(Self::from_shape_vec(shape, values)?)
    }

    fn written(&self) -> String {
        let row = |row: ndarray::ArrayView1<f32>| {
            let numbers = row.iter().map(f32::to_string);
            numbers.collect::<Vec<_>>().join(" ")
        };
        let rows: Vec<String> = self.outer_iter().map(row).collect();
        rows.join("; ")
    }

    fn code(text: &str) -> String {
        let rows = text.split(';').filter(|row| !row.trim().is_empty());
        let row = |row: &str| row.split_whitespace().collect::<Vec<_>>().join(", ");
        let rows: Vec<String> = rows.map(|it| format!("[{}]", row(it))).collect();
        format!("array![{}]", rows.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_what_is_wrong_is_named() {
        let matrix = array![[0.5, -1.0], [2.0, 0.25]];
        assert_eq!(matrix.written(), "0.5 -1; 2 0.25");
        assert_eq!(Array2::read("0.5 -1;\n2 0.25;").unwrap(), matrix);
        assert_eq!(Array2::code("0.5 -1; 2 3"), "array![[0.5, -1], [2, 3]]");
        for (text, fault) in [
            ("1 2; 3", "a row has 1 numbers, the one before 2"),
            ("1 x", "`x` is not a number"),
            (" ;", "a matrix has numbers"),
        ] {
            assert_eq!(Array2::read(text).unwrap_err().to_string(), fault);
        }
        let error = u64::read("-1").unwrap_err();
        assert_eq!(error.to_string(), "`-1` is not a whole number");
        assert_eq!(String::code("a \"b\""), "\"a \\\"b\\\"\".to_owned()");
    }
}
