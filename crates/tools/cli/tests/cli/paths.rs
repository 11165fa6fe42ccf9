//! Tests that `~` at the beginning of a path refers to the home folder in every option, even in
//! places where the shell doesn't expand it.

#![cfg(unix)]

use crate::support::{Ran, TINY, folder};

#[test]
fn a_tilde_is_the_home_folder_in_every_path() {
    let folder = folder();
    std::fs::create_dir(folder.join("home")).unwrap();
    folder.write("home/text.txt", "One day the boat was gone. ".repeat(20));
    folder.write("home/my.toml", "data = '~/text.txt'\nout_dir = '~/other'");
    let tiny = TINY.replace("--data data.bin --vocab-size 61 ", "");
    let commands = [
        &format!("train {tiny} --data=~/text.txt --tokenizer chars --max-steps 1 --out-dir=~/run"),
        &format!("train {tiny} --config ~/my.toml --tokenizer ~/run --max-steps 1"),
        "train --resume=~/run --max-steps 2",
        "train --init-from=~/run --data ~/text.txt --max-steps 1 --max-length 8 -o ~/on",
        "info ~/other",
        "convert ~/run ~/hf",
        "generate -m ~/hf -f ~/text.txt --past-context crop -n 1 --temp 0",
        "tokenize --model=~/run -f ~/text.txt -o ~/ids.bin",
        "eval --model=~/run -f ~/ids.bin",
        "inspect -m ~/run boat --html=~/page.html",
    ];
    for args in commands {
        let mut command = folder.command(args);
        let ran: Ran = command
            .env("HOME", folder.join("home"))
            .output()
            .unwrap()
            .into();
        assert_eq!(ran.code, Some(0), "gpt {args}\n{}", ran.stderr);
    }
    for name in ["run", "other", "on", "hf", "ids.bin", "page.html"] {
        assert!(folder.join("home").join(name).exists(), "{name}");
    }
    assert!(!folder.join("~").exists());
}
