//! A page in headless Chromium: its document after its scripts have run, and its console.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A page that was opened.
#[derive(Clone, Debug)]
pub struct Opened {
    /// The document as HTML, scripts run.
    pub dom: String,
    /// The console's lines: script errors, messages of the page, and `missing NAME` for each
    /// missing resource.
    pub console: Vec<String>,
}

/// Like [`open`], on a phone: 390 pixels wide, which is narrower than a window may be. So the page
/// is put into a frame, and the document is taken from it after its timers.
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

/// Opens a file in a window 1280 pixels wide and skips twenty seconds of its timers; `None`, and a
/// line on standard error, without Chromium.
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
    let flags = [
        "--enable-logging=stderr",
        "--v=0",
        "--dump-dom",
        "--virtual-time-budget=20000",
    ];
    let output = start(&page, profile.path(), &flags)?.wait_with_output();
    let output = output.expect("the browser ends");
    assert!(output.status.success(), "{}", output.status);
    let log = String::from_utf8_lossy(&output.stderr);
    Some(Opened {
        dom: String::from_utf8(output.stdout).expect("a page is UTF-8"),
        console: log
            .lines()
            .filter(|line| line.contains(":CONSOLE"))
            .map(str::to_owned)
            .collect(),
    })
}

/// Opens a file, runs a script in it, and returns the text that the script passes to `report`;
/// `None`, and a line on standard error, without Chromium.
///
/// Unlike [`open`], this waits for real time to pass, so that a worker can compute.
/// `until(condition)` waits for a condition. An error in the page is reported as the text.
///
/// # Panics
/// If nothing is reported within two minutes.
pub fn ask(page: &Path, script: &str) -> Option<String> {
    let server = TcpListener::bind("127.0.0.1:0").expect("a local port");
    let port = server.local_addr().expect("it is bound").port();
    let tools = format!(
        "<head><script>const report = (text) => {{ new Image().src = 'http://127.0.0.1:{port}/' + encodeURIComponent(text) }};
         addEventListener('error', ({{ message, target }}) => report('error: ' + (message || target.src || target.href)), true);
         addEventListener('unhandledrejection', ({{ reason }}) => report('error: ' + reason));
         const until = async (condition) => {{ while (!condition()) await new Promise((done) => setTimeout(done, 20)) }};
         </script>"
    );
    let source = std::fs::read_to_string(page).expect("the page exists");
    let source = source.replacen("<head>", &tools, 1);
    let asking = page.with_file_name("asking.html");
    let script = format!("<script>(async () => {{ {script} }})()</script>");
    std::fs::write(&asking, source + &script).expect("a temporary file");
    let profile = tempfile::tempdir().expect("a temporary folder");
    let mut browser = start(&asking, profile.path(), &["--remote-debugging-port=0"])?;
    server.set_nonblocking(true).expect("a local port");
    let begun = Instant::now();
    let mut connection = loop {
        match server.accept() {
            Ok((connection, _)) => break connection,
            Err(_) if begun.elapsed() > Duration::from_secs(120) => {
                let _ = browser.kill();
                panic!("nothing was reported in two minutes");
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    connection.set_nonblocking(false).expect("a connection");
    let mut line = String::new();
    BufReader::new(&connection)
        .read_line(&mut line)
        .expect("a request");
    let _ = connection.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
    let _ = browser.kill();
    let _ = browser.wait();
    let text = line.split(' ').nth(1).expect("a path");
    Some(decoded(&text[1..]))
}

/// The text that `encodeURIComponent` encoded.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(code, 16).expect("two digits"));
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).expect("it was a text")
}

/// Starts a headless Chromium with a page; `None`, and a line on standard error, without one.
fn start(page: &Path, profile: &Path, flags: &[&str]) -> Option<Child> {
    for browser in ["chromium", "chromium-browser", "google-chrome"] {
        let child = Command::new(browser)
            .args("--headless --no-sandbox --disable-gpu --no-first-run --disable-sync".split(' '))
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-dev-shm-usage", // which is small in containers
                "--window-size=1280,844",
            ])
            .args(flags)
            .arg(format!("--user-data-dir={}", profile.display()))
            .arg(format!("file://{}", page.display()))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        if let Ok(child) = child {
            return Some(child);
        }
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
