// Makes the pages of the notebooks interactive. Each input of a notebook gets a field beside its
// cell. When the reader changes an input, the WebAssembly module runs the notebook again, and the
// changed outputs are marked. If the page has a model, its view also asks this module.
//
// What the reader types, and the address of the page, are inserted into the page only as text,
// never as HTML.
//
// The command `cargo xtask notebook --html DIR --live` writes this script to DIR/live.js, after
// view.js and a line that defines LIVE_WASM, the module in Base64. The script story.js defines
// LIVE_MODEL, the packed model of a page.
const liveBytes = Uint8Array.from(atob(LIVE_WASM), (byte) => byte.charCodeAt(0));
let liveText = typeof LIVE_TEXT === 'undefined' ? undefined : LIVE_TEXT; // The text that the notebooks read.

/**
 * Returns two functions. `ask(request)` returns the module's answer, and throws an error if the
 * request fails. `restart()` discards the instance of the module, so that the next request creates a
 * new one. `prepare(ask)` is called for each new instance.
 */
function openLive(module, prepare) {
  let instance;
  const restart = () => { instance = undefined; };
  const ask = (request) => {
    if (!instance) {
      instance = new WebAssembly.Instance(module);
      prepare(ask);
    }
    const { exports } = instance;
    new TextEncoder().encode(JSON.stringify(request)).forEach((byte) => exports.push(byte));
    let length;
    try {
      length = exports.run();
    } catch {
      length = exports.length(); // The answer is the message of the panic.
      restart(); // After a panic, the instance can't be used anymore.
    }
    const bytes = Uint8Array.from({ length }, (_, place) => exports.byte(place));
    const answer = JSON.parse(new TextDecoder().decode(bytes) || '{"fault": "the computation failed without a message"}');
    if (answer.fault) throw new Error(answer.fault);
    return answer;
  };
  return { ask, restart };
}

const { ask: askLive, restart: restartLive } = openLive(new WebAssembly.Module(liveBytes), (ask) => {
  if (typeof LIVE_MODEL !== 'undefined') ask({ model: LIVE_MODEL });
  if (liveText !== undefined) ask({ source: liveText });
});

(() => {
  const root = document.getElementById('model');
  if (!root || typeof LIVE_MODEL === 'undefined') return;
  showModel(root, {
    look: (text) => askLive({ text }),
    block: (block, text) => askLive({ text, block }),
    write: (text, write) => askLive({ text, write }),
    next: () => askLive({ next: true }),
  }, root.dataset.text);
})();

(() => {
  const notebook = document.querySelector("[data-notebook]")?.dataset.notebook;
  if (!notebook || !document.querySelector(".live-bar")) return; // This page has no inputs.
  const timed = (inputs) => {
    const start = performance.now();
    return { ...askLive({ notebook, inputs }), ms: Math.round(performance.now() - start) };
  };
  const at = (line) => document.querySelector(`[data-line="${Number(line)}"]`);
  const book = timed([]);
  const cells = new Map(); // Maps a line to its cell, computed with the book's inputs, and to the cell's elements.
  for (const cell of book.cells) {
    const place = at(cell.line)?.querySelector(".result");
    if (!place) continue;
    if (cell.skipped && place.querySelector("pre") && !place.querySelector("p.dim")) place.append(
      make("p", { className: "dim", textContent: `This output was stored when the page was created, because ${cell.skipped}.` }));
    cells.set(cell.line, { ...cell, place, written: at(cell.line).querySelector("pre"), stored: [...place.childNodes] });
  }
  const texts = new Map(); // Maps an ID to its text, computed with the book's inputs, and to the text's elements.
  for (const [id, text] of book.texts) {
    const place = document.querySelector(`[data-text="${id}"]`);
    if (place) texts.set(id, { text, place, stored: [...place.childNodes] });
  }
  const fields = new Map();

  const status = make("span", { role: "status", ariaLive: "polite" });
  const reset = make("button", { type: "button", textContent: "Reset all inputs", hidden: true });
  document.querySelector(".live-bar")?.remove(); // It told the reader that the script is being loaded.
  document.querySelector("main").append(make("p", { className: "live-bar" }, status, " ", reset));
  document.querySelector(".interactive").hidden = false;

  // Returns the output `text` with marks on the words that differ from the words of `then`, which
  // is the output with the book's inputs. Words are compared by their position.
  const wordsOf = (text) => text.split(/([\s,;[\]()]+)/);
  const isWord = (word) => /[^\s,;[\]()]/.test(word);
  const marked = (text, then) => {
    const books = wordsOf(then), pre = make("pre", { tabIndex: 0 });
    wordsOf(text).forEach((word, place) => pre.append(
      word !== books[place] && isWord(word) ? make("mark", { textContent: word }) : word));
    return pre;
  };
  // Returns a copy of the highlighted code `written` in which the book's code `then` is replaced by
  // `code`. Only the part from the first to the last word that differs is replaced and marked, so
  // the other words keep their colors.
  const recoded = (code, then, written) => {
    const [words, books] = [code, then].map(wordsOf), pre = written.cloneNode(true), range = new Range();
    let first = 0, same = 0; // Numbers of equal words at the beginning and at the end.
    while (first < Math.min(words.length, books.length) && words[first] === books[first]) first++;
    while (same < Math.min(words.length, books.length) - first && words.at(-1 - same) === books.at(-1 - same)) same++;
    if (pre.textContent !== then) pre.textContent = then; // The page shows different code here.
    const length = (words) => words.reduce((sum, word) => sum + word.length, 0);
    const [from, to] = [length(books.slice(0, first)), length(books.slice(0, books.length - same))];
    const texts = document.createTreeWalker(pre, NodeFilter.SHOW_TEXT);
    let node, at = 0, begun = false;
    while ((node = texts.nextNode())) {
      const end = at + node.length;
      if (!begun && from < end) {
        range.setStart(node, from - at);
        begun = true;
      }
      if (to <= end) {
        range.setEnd(node, to - at);
        break;
      }
      at = end;
    }
    range.deleteContents();
    const changed = words.slice(first, words.length - same);
    range.insertNode(make("span", {}, ...changed.map((word) => isWord(word) ? make("mark", { textContent: word }) : word)));
    return pre;
  };

  // Returns the elements of a text in which backticks enclose code and asterisks enclose emphasis.
  const styled = (text) => text.split(/(`[^`]*`|\*[^\s*][^*]*\*)/).map((part, place) => place % 2
    ? make(part[0] === "`" ? "code" : "em", { textContent: part.slice(1, -1) }) : part);
  // Returns the elements that show a text whose values have changed.
  const retold = ({ place }, text) => {
    if (place.tagName === "PRE") return [text];
    if (!place.querySelector("p")) return styled(text);
    return text.split("\n\n").map((paragraph) => make("p", {}, ...styled(paragraph)));
  };

  const show = (answer) => {
    for (const [id, text] of answer.texts) {
      const known = texts.get(id);
      known?.place.replaceChildren(...(text === known.text ? known.stored : retold(known, text)));
    }
    for (const { line, shows, fault, skipped, code } of answer.cells) {
      const { place, shows: then, code: codeThen, written, stored } = cells.get(line) ?? {};
      if (then === undefined) continue;
      at(line).querySelector("pre").replaceWith(code === codeThen ? written : recoded(code, codeThen, written));
      if (shows === then || skipped) place.replaceChildren(...stored);
      else if (shows === undefined) place.replaceChildren(make("p", { className: "fault", textContent: fault }));
      else place.replaceChildren(
        make("p", { className: "label", textContent: "Computed on this page. Differences from the book are marked." }),
        marked(shows, then));
    }
    for (const { line, figure: then } of book.pictures) {
      const place = at(line);
      if (!place) continue;
      const now = answer.pictures.find((picture) => picture.line === line)?.figure;
      place.classList.toggle("stale", now === undefined && answer.cells.some((cell) => cell.fault));
      place.classList.toggle("changed", now !== undefined && now !== then);
      place.innerHTML = now ?? then; // The module creates this HTML and escapes the texts in it.
    }
  };

  const anchor = () => location.hash.slice(1).split("&").find((part) => !part.includes("=")) ?? "";
  let hasOwnText = false;
  const compute = (isNewText) => {
    clearTimeout(waiting);
    hasOwnText ||= isNewText === true;
    const changed = [...fields].filter(([, { field, value }]) => field.value !== value);
    const named = changed.map(([name, { field }]) => [name, field.value].map(encodeURIComponent).join("="));
    const hash = [anchor(), ...named].filter(Boolean).join("&");
    if (hash !== location.hash.slice(1)) history.replaceState(null, "", `${location.href.split("#")[0]}#${hash}`);
    reset.hidden = changed.length === 0;
    status.replaceChildren();
    let answer = book, broken;
    try {
      if (changed.length || hasOwnText) answer = timed(changed.map(([, { line, field }]) => [line, field.value]));
    } catch (error) {
      broken = error;
    }
    document.body.classList.toggle("broken", Boolean(broken)); // The page shows earlier results.
    if (broken) {
      status.textContent = `The notebook can't be computed: ${broken.message}`;
      return;
    }
    show(answer);
    let first;
    for (const input of answer.inputs) {
      const known = fields.get(input.name);
      if (!known) continue;
      const { field, fault } = known;
      if (hasOwnText && input.default !== known.value && field.value === known.value)
        field.value = known.value = input.default; // This default depends on the text.
      field.setAttribute("aria-invalid", Boolean(input.fault));
      fault.textContent = input.fault ? input.fault.replace(/^the input [^:]*: /, "") : "";
      if (input.fault) first ??= field;
    }
    if (first) {
      const link = make("a", { href: `#${first.id}`, textContent: "Go to the first one" });
      link.addEventListener("click", (event) => (event.preventDefault(), first.focus()));
      status.append("Some inputs have invalid values. ", link);
      return;
    }
    const lost = answer.cells.find((cell) => cell.fault && cells.get(cell.line)?.shows !== undefined);
    const count = (of) => answer.cells.reduce((sum, cell) => sum + of(cell), 0);
    const others = answer.cells.filter((cell) => cell.other).length;
    if (lost) status.textContent = `The notebook can't be computed completely: ${lost.fault}`;
    else if (changed.length) status.textContent =
      `${changed.length} ${changed.length === 1 ? "input" : "inputs"} changed. The notebook was computed again in ${answer.ms} ms, and results that differ from the book are marked.`;
    else status.textContent = `${others ? `${others} cells read a text other than the book's. ` : ""}All inputs are as in the book. ${count((cell) => cell.figures ?? 0)} values were computed here ` +
      `in ${answer.ms} ms and compared with the book's, and ${count((cell) => cell.faults?.length ?? 0)} of them differ.`;
  };

  let waiting;
  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(compute, 300); // Milliseconds after the last key.
  };
  const chooser = document.getElementById("own-text");
  chooser?.addEventListener("change", async () => {
    const [file] = chooser.files;
    if (!file) return;
    const text = (await file.text()).replace(/^\uFEFF/, "");
    if (text.length > 500_000) {
      status.textContent = `${file.name} has more than 500,000 characters. Choose a shorter text.`;
      return;
    }
    liveText = text;
    restartLive(); // The next instance will read this text.
    compute(true);
  });
  for (const { name, label, cell, line, default: value, range } of book.inputs) {
    const code = at(cell)?.querySelector("pre");
    if (!code) continue;
    const rows = value.split("; ");
    const field = make(rows.length > 1 ? "textarea" : "input", { value: rows.join(";\n") });
    if (rows.length > 1) field.rows = rows.length;
    else field.size = isNaN(value) ? 40 : 12;
    field.id = `field-${line}`;
    field.title = `Value in the book: ${value}`;
    if (/^-?\d+$/.test(value)) field.inputMode = "numeric";
    else if (rows.length === 1 && !isNaN(value)) field.inputMode = "decimal";
    const fault = make("span", { className: "fault", id: `fault-${line}`, role: "alert" });
    field.setAttribute("aria-describedby", fault.id);
    field.autocomplete = "off";
    field.spellcheck = false;
    const bounds = make("small", { className: "dim", textContent: ` ${range}` });
    if (!code.previousElementSibling?.matches(".controls")) code.before(make("div", { className: "controls" }));
    code.previousElementSibling.append(make("label", { className: "live" }, `${label} `, field, bounds, " ", fault));
    fields.set(name, { line, field, fault, value: field.value });
    field.addEventListener("input", soon);
    field.addEventListener("change", compute);
  }
  const fromAddress = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    for (const [name, { field, value }] of fields) field.value = asked.get(name) ?? value;
    if (location.hash.includes("=")) document.getElementById(anchor())?.scrollIntoView();
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
