// Fields beside the cells that have inputs; a change computes the notebook again, by the same Rust.
// Where the page has a model, its view asks the same Rust.
// Whatever a reader or the address says reaches the page as text alone.
// `cargo xtask notebook --html DIR --live` writes this file behind view.js and a line that has
// LIVE_WASM; LIVE_MODEL is a page's own.
const bytesOf = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
const liveModule = new WebAssembly.Module(bytesOf(LIVE_WASM));
let liveInstance;

/** What Rust answers to a request. */
function askLive(request) {
  let exports = liveInstance?.exports;
  const push = (bytes) => bytes.forEach((byte) => exports.push(byte));
  const answer = (length) => {
    const bytes = Uint8Array.from({ length }, (_, place) => exports.byte(place));
    return JSON.parse(new TextDecoder().decode(bytes));
  };
  if (!exports) {
    ({ exports } = liveInstance = new WebAssembly.Instance(liveModule));
    if (typeof LIVE_MODEL !== 'undefined') {
      push(bytesOf(LIVE_MODEL));
      const fault = exports.load();
      if (fault) return answer(fault);
    }
  }
  push(new TextEncoder().encode(JSON.stringify(request)));
  let length;
  try {
    length = exports.run();
  } catch {
    length = exports.length(); // of the panic's message
    liveInstance = undefined; // it is of no more use
  }
  return length ? answer(length) : { fault: "the computation broke off" };
}

(() => {
  const root = document.getElementById('model');
  if (!root || typeof LIVE_MODEL === 'undefined') return;
  const ask = (request) => {
    const answer = askLive(request);
    if (answer.fault) throw new Error(answer.fault);
    return answer;
  };
  showModel(root, {
    look: (text) => ask({ text }), block: (block, text) => ask({ text, block }),
    write: (text, write) => ask({ text, write }),
  }, root.dataset.text);
})();

(() => {
  const notebook = document.querySelector("[data-notebook]")?.dataset.notebook;
  if (!notebook) return;
  const timed = (inputs) => {
    const start = performance.now();
    return { ...askLive({ notebook, inputs }), ms: Math.round(performance.now() - start) };
  };
  const element = (name, properties) => Object.assign(document.createElement(name), properties);
  const at = (line) => document.querySelector(`[data-line="${Number(line)}"]`);
  const book = timed([]);
  const before = new Map(book.cells.map((cell) => [cell.line, cell]));
  const stored = new Map(), codes = new Map(); // what the page shows by itself, by line
  const fields = new Map();

  const status = element("span", { role: "status" });
  const reset = element("button", { type: "button", textContent: "All as in the book", hidden: true });
  const bar = element("p", { className: "live-bar" });
  bar.append(status, " ", reset);
  document.querySelector("main").append(bar);

  // Words that differ from the book's are marked: in an output each, in code, where a value may
  // have more words than another, all from the first that differs to the last.
  const marked = (text, then, isCode) => {
    const [words, books] = [text, then].map((text) => text.split(/([\s,;[\]()]+)/));
    const first = words.findIndex((word, place) => word !== books[place]);
    let same = 0; // at the end
    while (same < Math.min(words.length, books.length) - first && words.at(-1 - same) === books.at(-1 - same)) same++;
    const differs = (word, place) => isCode
      ? first >= 0 && place >= first && place < words.length - same : word !== books[place];
    const pre = element("pre", { tabIndex: 0 });
    words.forEach((word, place) => pre.append(
      differs(word, place) && /[^\s,;[\]()]/.test(word) ? element("mark", { textContent: word }) : word));
    return pre;
  };

  const show = (answer) => {
    for (const { line, shows, fault, skipped, code } of answer.cells) {
      const place = at(line)?.querySelector(".result");
      const { shows: then, code: written } = before.get(line) ?? {};
      if (!place || then === undefined) continue;
      const now = at(line).querySelector("pre"); // the code's
      if (!codes.has(line)) codes.set(line, now);
      now.replaceWith(code === written ? codes.get(line) : marked(code, written, true));
      if (!stored.has(line)) stored.set(line, [...place.childNodes]);
      if (shows === then || skipped) place.replaceChildren(...stored.get(line));
      else if (shows === undefined) place.replaceChildren(element("p", { className: "fault", textContent: fault }));
      else place.replaceChildren(
        element("h4", { textContent: "computed here; what differs from the book is marked" }),
        marked(shows, then));
    }
    for (const { line, figure: then } of book.pictures) {
      const place = at(line);
      if (!place) continue;
      const now = answer.pictures.find((picture) => picture.line === line)?.figure;
      place.classList.toggle("stale", now === undefined && answer.cells.some((cell) => cell.fault));
      place.classList.toggle("changed", now !== undefined && now !== then);
      place.innerHTML = now ?? then; // our own SVG, in which texts are escaped
    }
  };

  const anchor = () => location.hash.slice(1).split("&").filter((part) => !part.includes("="))[0] ?? "";
  const compute = () => {
    const inputs = [...fields].flatMap(([name, { field, value }]) =>
      field.value === value ? [] : [[name, field.value]]);
    const parts = [anchor(), ...inputs.map((pair) => pair.map(encodeURIComponent).join("="))];
    const hash = parts.filter(Boolean).join("&");
    if (hash !== location.hash.slice(1)) history.replaceState(null, "", `${location.href.split("#")[0]}#${hash}`);
    reset.hidden = inputs.length === 0;
    const answer = inputs.length ? timed(inputs) : book;
    document.body.classList.toggle("broken", Boolean(answer.fault)); // what stands there is older
    if (answer.fault) {
      status.textContent = `That can't be computed: ${answer.fault}`;
      return;
    }
    show(answer);
    const lost = answer.cells.find((cell) => cell.fault && before.get(cell.line)?.shows !== undefined);
    const count = (of) => answer.cells.reduce((sum, cell) => sum + of(cell), 0);
    if (lost) status.textContent = `That can't be computed: ${lost.fault}`;
    else if (inputs.length) status.textContent =
      `${inputs.length} changed: what follows was computed here in ${answer.ms} ms and is compared with nothing.`;
    else status.textContent = `All as in the book: ${count((cell) => cell.figures ?? 0)} values computed here ` +
      `in ${answer.ms} ms and compared, ${count((cell) => cell.faults?.length ?? 0)} of them off.`;
  };

  for (const { line, skipped } of book.cells) {
    const place = at(line)?.querySelector(".result");
    if (skipped && place?.querySelector("pre")) place.append(
      element("p", { className: "dim", textContent: `Stored when the page was made: ${skipped}.` }));
  }
  for (const { name, label, cell, default: value } of book.inputs) {
    const code = at(cell)?.querySelector("pre");
    if (!code) continue;
    const rows = value.split("; ");
    const field = element(rows.length > 1 ? "textarea" : "input", { value: rows.join(";\n") });
    if (rows.length > 1) field.rows = rows.length;
    else field.size = isNaN(value) ? 40 : 12;
    field.title = `in the book: ${value}`;
    field.autocomplete = "off";
    field.spellcheck = false;
    const line = element("label", { className: "live", textContent: `${label} ` });
    line.append(field);
    code.before(line);
    fields.set(name, { field, value: field.value });
    field.addEventListener("change", compute);
  }
  const fromAddress = () => {
    const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };
    const pairs = location.hash.slice(1).split("&").filter((part) => part.includes("="));
    const asked = new Map(pairs.map((pair) => {
      const [name, ...value] = pair.split("=");
      return [decoded(name), decoded(value.join("="))];
    }));
    for (const [name, { field, value }] of fields) field.value = asked.get(name) ?? value;
    if (asked.size) document.getElementById(anchor())?.scrollIntoView();
  };
  reset.addEventListener("click", () => {
    for (const { field, value } of fields.values()) field.value = value;
    compute();
  });
  addEventListener("hashchange", () => {
    if (location.hash.includes("=")) fromAddress();
    compute();
  });
  fromAddress();
  compute();
})();
