//! Opens web pages in headless Chromium, so that tests can examine a page after its scripts have
//! run.
//!
//! If Chromium isn't installed, the functions of this module return `None` and write a line to
//! standard error.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What a page contains after its scripts have run.
#[derive(Clone, Debug)]
pub struct Opened {
    /// HTML of the document.
    pub dom: String,
    /// Lines from the browser's console. They contain script errors, messages that the page logs,
    /// and a line with the text `missing` and a URL for each resource that couldn't be loaded.
    pub console: Vec<String>,
}

/// Opens an HTML file like [`open`], but shows the page as on a phone whose screen is 390 pixels
/// wide.
///
/// Chromium's windows can't be that narrow, so the page is shown in an `<iframe>` that is 390
/// pixels wide. After 15 seconds of virtual time, the document inside this frame is returned.
///
/// # Panics
///
/// Panics under the same conditions as [`open`].
pub fn open_narrow(page: &Path) -> Option<Opened> {
    let source = std::fs::read_to_string(page).expect("the page exists");
    let source = source.replace('&', "&amp;").replace('"', "&quot;");
    // The script replaces this outer document with the document inside the frame, which is then
    // returned.
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

/// Opens an HTML file in a window that is 1280 pixels wide, and returns the page as it is after 20
/// seconds. These are seconds of virtual time: the page's clock runs ahead, so that no time is
/// spent on waiting for timers.
///
/// # Panics
///
/// Panics if the file can't be read or if the browser fails.
pub fn open(page: &Path) -> Option<Opened> {
    let profile = tempfile::tempdir().expect("a temporary folder");
    // Chromium doesn't log missing files to the console, so we add a script to the page that logs
    // them.
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
    let output = start_browser(&page, profile.path(), &flags)?.wait_with_output();
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

/// Opens an HTML file, runs a script in the page, and returns the text that the script passes to
/// the function `report`. If an uncaught error occurs on the page, the text is the error message,
/// preceded by `error: `.
///
/// The script is the body of an asynchronous function. It can call `await until(condition)` to wait
/// until the function `condition` returns true.
///
/// Unlike in a page opened with [`open`], the clock of this page runs in real time, so that web
/// workers have time to finish their computations.
///
/// # Panics
///
/// Panics if the file can't be read, or if the script doesn't call `report` within ten minutes.
pub fn ask(page: &Path, script: &str) -> Option<String> {
    let server = TcpListener::bind("127.0.0.1:0").expect("a local port");
    let port = server.local_addr().expect("it is bound").port();
    // The script in this string defines the functions `report` and `until`. `report` requests a URL
    // that contains the text, which the server below receives.
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
    let mut browser = start_browser(&asking, profile.path(), &["--remote-debugging-port=0"])?;
    server.set_nonblocking(true).expect("a local port");
    let begun = Instant::now();
    let mut connection = loop {
        match server.accept() {
            Ok((connection, _)) => break connection,
            Err(_) if begun.elapsed() > Duration::from_secs(600) => {
                let _ = browser.kill();
                panic!("the page in the browser didn't report a result within ten minutes");
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
    Some(decode_uri_component(&text[1..]))
}

/// Decodes a string that `encodeURIComponent` has encoded.
fn decode_uri_component(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at(2);
        bytes.push(u8::from_str_radix(code, 16).expect("two digits"));
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).expect("it was a text")
}

/// Starts headless Chromium, which opens a page, and returns the browser's process. Returns `None`
/// if no browser can be started.
fn start_browser(page: &Path, profile: &Path, flags: &[&str]) -> Option<Child> {
    for browser in ["chromium", "chromium-browser", "google-chrome"] {
        let child = Command::new(browser)
            .args("--headless --no-sandbox --disable-gpu --no-first-run --disable-sync".split(' '))
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-dev-shm-usage", // Containers often have a small /dev/shm.
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
    // Chromium isn't available, so the test is skipped. Write the message directly to standard
    // error. The test harness would capture the output of `eprintln!`, so nobody would notice that
    // the test was skipped.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {} can't be opened because Chromium isn't installed",
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
