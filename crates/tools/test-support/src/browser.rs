//! A page in headless Chromium: what it shows once its scripts have run, and what its console says.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A page that was opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The document as HTML, scripts run.
    pub dom: String,
    /// The console's lines: errors of scripts, whatever a page writes there, and `missing NAME` for
    /// each resource that is not there.
    pub console: Vec<String>,
}

/// [`open`] as on a phone: 390 pixels wide, which is less than a window may have, so that the page
/// stands in a frame, from which the document is taken once its timers have passed.
///
/// # Panics
/// As [`open`].
pub fn open_narrow(page: &Path) -> Option<Opened> {
    let source = std::fs::read_to_string(page).expect("the page exists");
    let source = source.replace('&', "&amp;").replace('"', "&quot;");
    let framed = format!(
        "<head></head><iframe style=\"width:390px;height:844px\" srcdoc=\"{source}\"></iframe><script>\
         setTimeout(() => document.documentElement.replaceWith(document.adoptNode(\
         document.querySelector('iframe').contentDocument.documentElement)), 15000)</script>"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("framed.html");
    std::fs::write(&path, framed).expect("a temporary file");
    open(&path)
}

/// Opens a file in a window 1280 pixels wide and lets twenty seconds of its timers pass, which are
/// not waited for; `None`, and a line on standard error, where there is no Chromium.
///
/// # Panics
/// If the browser fails.
pub fn open(page: &Path) -> Option<Opened> {
    let profile = tempfile::tempdir().expect("a temporary folder");
    // Chromium's console is silent about files that are missing.
    let source = std::fs::read_to_string(page).expect("the page exists");
    let source = source.replacen(
        "<head>",
        "<head><script>addEventListener('error', ({ target }) => { \
         if (target !== window) console.error('missing ' + (target.src || target.href)) }, true)</script>",
        1,
    );
    let page = profile.path().join("page.html");
    std::fs::write(&page, source).expect("a temporary file");
    for browser in ["chromium", "chromium-browser", "google-chrome"] {
        let output = Command::new(browser)
            .args("--headless --no-sandbox --disable-gpu --no-first-run --disable-sync".split(' '))
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-dev-shm-usage", // which is small in containers
            ])
            .args(["--enable-logging=stderr", "--v=0", "--dump-dom"])
            .arg("--virtual-time-budget=20000")
            .arg("--window-size=1280,844")
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
        let source = "<head></head><p></p><script>document.querySelector('p').textContent = 6 * 7</script>\
                      <img src=\"none.png\"><script>nothing()</script>";
        std::fs::write(&page, source).unwrap();
        let Some(opened) = open(&page) else { return };
        assert!(opened.dom.contains("<p>42</p>"), "{opened:?}");
        let console = opened.console.join("\n");
        assert!(
            console.contains("missing file://") && console.contains("none.png"),
            "{console}"
        );
        assert!(console.contains("nothing is not defined"), "{console}");
    }
}
