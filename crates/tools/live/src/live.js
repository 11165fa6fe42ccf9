// Fields beside the cells that have inputs; a change computes the notebook again, by the same Rust.
// Whatever a reader or the address says reaches the page as text alone.
// `cargo xtask notebook --html DIR --live` writes this file behind a line that has LIVE_WASM.
const liveModule = new WebAssembly.Module(
  Uint8Array.from(atob(LIVE_WASM), (character) => character.charCodeAt(0)));
let liveInstance;

/** What the notebook computes with these inputs, pairs of a name and a text. */
function askLive(notebook, inputs) {
  liveInstance ??= new WebAssembly.Instance(liveModule);
  const { exports } = liveInstance;
  for (const byte of new TextEncoder().encode(JSON.stringify({ notebook, inputs }))) exports.push(byte);
  let length;
  try {
    length = exports.run();
  } catch {
    length = exports.length(); // of the panic's message
    liveInstance = undefined; // it is of no more use
  }
  const answer = Uint8Array.from({ length }, (_, place) => exports.byte(place));
  if (!length) return { fault: "the computation broke off" };
  return JSON.parse(new TextDecoder().decode(answer));
}

(() => {
  const notebook = document.querySelector("[data-notebook]")?.dataset.notebook;
  if (!notebook) return;
  const timed = (inputs) => {
    const start = performance.now();
    return { ...askLive(notebook, inputs), ms: Math.round(performance.now() - start) };
  };
  const element = (name, properties) => Object.assign(document.createElement(name), properties);
  const at = (line) => document.querySelector(`[data-line="${Number(line)}"]`);
  const book = timed([]);
  const before = new Map(book.cells.map((cell) => [cell.line, cell]));
  const stored = new Map(); // what the page shows by itself, by line
  const fields = new Map();

  const status = element("span", { role: "status" });
  const reset = element("button", { type: "button", textContent: "All as in the book", hidden: true });
  const bar = element("p", { className: "live-bar" });
  bar.append(status, " ", reset);
  document.querySelector("main").append(bar);

  // The words that differ from the book's are marked.
  const marked = (shows, then) => {
    const words = (text) => text.split(/([\s,[\]()]+)/);
    const books = words(then);
    const pre = element("pre", { tabIndex: 0 });
    words(shows).forEach((word, place) => pre.append(
      word === books[place] || !/[^\s,[\]()]/.test(word) ? word : element("mark", { textContent: word })));
    return pre;
  };

  const show = (answer) => {
    for (const { line, shows, fault } of answer.cells) {
      const place = at(line)?.querySelector(".result");
      const then = before.get(line)?.shows;
      if (!place || then === undefined) continue;
      if (!stored.has(line)) stored.set(line, [...place.childNodes]);
      if (shows === then) place.replaceChildren(...stored.get(line));
      else if (shows === undefined) place.replaceChildren(element("p", { className: "fault", textContent: fault }));
      else place.replaceChildren(
        element("h4", { textContent: "computed here; what differs from the book is marked" }),
        marked(shows, then));
    }
    for (const { line, figure: then } of book.pictures) {
      const place = at(line);
      if (!place) continue;
      const now = answer.pictures.find((picture) => picture.line === line)?.figure;
      place.classList.toggle("stale", now === undefined);
      place.classList.toggle("changed", now !== undefined && now !== then);
      if (now !== undefined) place.innerHTML = now; // our own SVG, in which texts are escaped
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
