//! A page in headless Chromium: what it shows once its scripts have run, and what its console says.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A page that was opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The document as HTML, scripts run.
    pub dom: String,
    /// The console's lines: errors of scripts, resources that are missing, and whatever a page writes there.
    pub console: Vec<String>,
}

/// Opens a file; `None`, and a line on standard error, where there is no Chromium.
///
/// # Panics
/// If the browser fails.
pub fn open(page: &Path) -> Option<Opened> {
    let profile = tempfile::tempdir().expect("a temporary folder");
    let page = page.canonicalize().expect("the page exists");
    for browser in ["chromium", "chromium-browser", "google-chrome"] {
        let output = Command::new(browser)
            .args("--headless --no-sandbox --disable-gpu --no-first-run --disable-sync".split(' '))
            .args([
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .args(["--enable-logging=stderr", "--v=0", "--dump-dom"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("file://{}", page.display()))
            .output();
        let Ok(output) = output else { continue };
        assert!(output.status.success(), "{browser}: {}", output.status);
        let log = String::from_utf8_lossy(&output.stderr);
        return Some(Opened {
            dom: String::from_utf8(output.stdout).expect("a page is UTF-8"),
            console: log
                .lines()
                .filter(|line| line.contains(":CONSOLE"))
                .map(str::to_owned)
                .collect(),
        });
    }
    // Past the capture of the tests' output.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: no Chromium to open {} in",
        page.display()
    );
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_missing_resources_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("page.html");
        let source = "<p></p><script>document.querySelector('p').textContent = 6 * 7</script>\
                      <img src=\"none.png\"><script>nothing()</script>";
        std::fs::write(&page, source).unwrap();
        let Some(opened) = open(&page) else { return };
        assert!(opened.dom.contains("<p>42</p>"), "{opened:?}");
        let console = opened.console.join("\n");
        assert!(console.contains("ERR_FILE_NOT_FOUND"), "{console}");
        assert!(console.contains("nothing is not defined"), "{console}");
    }
}
