//! A command must end without an error if the program that reads its output closes the pipe, as in
//! `cargo xtask notebook | head -1`.

use std::process::{Command, Stdio};

#[test]
fn a_closed_standard_output_is_no_error() {
    for args in [&["notebook", "3.5.1"][..], &["tidy"]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_xtask"))
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(
            ended.status.success() && stderr.is_empty(),
            "{args:?}: {stderr}"
        );
    }
}
