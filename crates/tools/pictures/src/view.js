/** Creates an element with the given properties and children. */
function make(name, properties = {}, ...inside) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...inside);
  return made;
}

/** Replaces line breaks, tabs, and leading and trailing spaces by visible symbols. */
const visible = (text) => text
  .replace(/^ +| +$/g, (blanks) => '␣'.repeat(blanks.length)).replace(/\n/g, '⏎').replace(/\t/g, '⇥');

/** Returns the background of a token. `most` is the loss that has the strongest color. */
const lossColor = (loss, most) => `rgba(209,87,27,${.75 * Math.min(1, (loss ?? 0) / most)})`;

/** Returns the value of a color variable of the page, which depends on the color scheme. */
const pageColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
/** Calls `redraw` when the reader switches between light and dark colors. */
const onColorScheme = (redraw) => matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);

/**
 * Returns the attention weight of a query and a key in units of 1/10,000. `bytes` are the weights of
 * a head, row by row and only up to the diagonal, with two bytes per weight.
 */
const weightAt = (bytes, q, k) => {
  const start = q * (q + 1) + 2 * k;
  return k > q ? 0 : bytes.charCodeAt(start) | bytes.charCodeAt(start + 1) << 8;
};

/**
 * Draws the weights of a head for a text of `n` tokens, one pixel per weight. If the text has more
 * than `size` tokens, some weights are skipped.
 */
function attentionPicture(bytes, n, size) {
  const made = make('canvas', { width: size, height: size }), pixels = new ImageData(size, size);
  const of = (place) => Math.floor(place * n / size), color = pageColor('--weight').split(',');
  for (let y = 0; y < size; y++) {
    let most = 1;
    for (let k = 0; k <= of(y); k++) most = Math.max(most, weightAt(bytes, of(y), k));
    for (let x = 0; x <= y; x++)
      pixels.data.set([...color, 255 * weightAt(bytes, of(y), of(x)) / most], 4 * (y * size + x));
  }
  made.getContext('2d').putImageData(pixels, 0, 0);
  return made;
}

/**
 * Draws a picture of attention weights on a canvas that is at most `room` CSS pixels wide, with the
 * tokens along both axes unless the cells are too small to read them. Returns the context for
 * further drawing, whose origin is the corner of the picture, and the sizes of a cell and of the
 * margin.
 */
function drawAttention(canvas, names, picture, room) {
  const n = names.length, paint = canvas.getContext('2d');
  const upright = names.every((name) => name.length <= 1), least = upright ? 9 : 14;
  const cellIn = (room) => Math.min(28, Math.floor(room / n));
  paint.font = '12px sans-serif';
  let margin = 8 + Math.ceil(Math.max(...names.map((name) => paint.measureText(name).width)));
  if (cellIn(room - margin) < least) margin = 0;
  const cell = Math.max(2, cellIn(room - margin)), size = margin + n * cell;
  const sharp = devicePixelRatio || 1; // device pixels per CSS pixel
  canvas.width = canvas.height = Math.round(size * sharp);
  canvas.style.width = canvas.style.height = `${size}px`;
  paint.scale(sharp, sharp);
  paint.translate(margin, margin);
  paint.font = `${Math.min(12, cell)}px sans-serif`;
  paint.fillStyle = pageColor('--ink');
  if (margin) names.forEach((name, place) => {
    const middle = (place + .5) * cell;
    paint.textAlign = 'right';
    paint.fillText(name, -6, middle + 4);
    paint.save();
    paint.translate(middle, -6);
    if (!upright) paint.rotate(-Math.PI / 2);
    paint.textAlign = upright ? 'center' : 'left';
    paint.fillText(name, 0, upright ? 0 : 4);
    paint.restore();
  });
  paint.imageSmoothingEnabled = false;
  paint.drawImage(picture, 0, 0, n * cell, n * cell);
  return { paint, cell, margin };
}

// Shows a model at work on a text: the loss of each token, the most probable next tokens, what the
// model would predict after each block, and the attention weights of all heads.
//
// `look(text)` and `block(layer, text)` return the data that `crates/tools/live/src/model.rs`
// describes, either stored in the page or computed on demand. If `write(text, how)` is given, the
// page has fields to enter a text and to continue it: `write` starts a continuation, and each call
// of `next()` adds a token and returns the whole continuation so far.
function showModel(root, { look, block, write, next: writeNext }, text) {
  const labelled = (label, field) => make('label', {}, `${label} `, field);
  const choice = (id, options) =>
    make('select', { id }, ...options.map((option) => make('option', { textContent: option })));
  const number = (value, max) => make('input', { type: 'number', min: 0, max, value });

  let data, names, shown, place, query, key; // All of these belong to the current text.
  const about = make('p'), tokens = make('p', { className: 'tokens' });
  const next = make('div', { id: 'next', ariaLive: 'polite', tabIndex: 0 });
  const heads = make('div', { id: 'heads', className: 'map' });
  const weight = make('p', { id: 'weight', role: 'status' });
  const all = make('table'), canvas = make('canvas', { id: 'map', tabIndex: 0, role: 'img',
    ariaLabel: 'Attention weights. Rows are queries and columns are keys. Use the arrow keys to move between cells.' });
  const map = make('div', { className: 'map' }, canvas);
  const temperature = choice('temperature', []), layer = choice('layer', []), head = choice('head', []);
  const top = choice('top-k', ['off', 1, 2, 3, 5, 10]);

  const field = make('textarea', { value: text ?? '', spellcheck: false });
  const seed = number(123, 2 ** 53 - 1), count = number(20, 500), status = make('p', { role: 'status' });
  const go = make('button', { type: 'button', className: 'write', textContent: 'Continue' });
  const written = make('p', { className: 'written', hidden: true }); // with the new part marked
  const sampling = [labelled('temperature', temperature), labelled('top-k', top)];
  const form = make('div', { className: 'form columns' },
    make('div', {}, labelled('Text', field), labelled('number of new tokens', count), ...write ? sampling : [],
      labelled('seed', seed), go),
    make('div', {}, make('p', { className: 'dim', textContent: `The next token is drawn at random from the probabilities \
below, which depend on the temperature and top-k. At temperature 0, the most probable token is always \
taken (greedy decoding), so top-k and the seed have no effect.` }), status, written));
  root.classList.add('view');
  root.append(...write ? [form] : [], about,
    make('p', { className: 'dim', textContent: `The stronger a token's color, the larger its loss \
(cross-entropy in nats), which means that the model found it less probable. Point at a token, or move \
to it with the Tab key, to see which tokens the model expects after it, and what it would predict \
after each block.` }),
    tokens, make('div', { className: 'columns' },
      make('div', {}, ...write ? [] : sampling, next),
      make('div', {}, make('h3', { textContent: 'Attention' }),
        make('p', { className: 'dim', textContent: 'An overview of all heads, with one row per layer. The selected head is shown below.' }),
        heads, labelled('layer', layer), labelled('head', head), weight, map,
        make('p', { className: 'dim', textContent: `Rows are queries and columns are keys. Each row \
sums to 1, and its largest weight has the strongest color. The frame marks the row of the selected token.` }))),
    make('details', { open: !write }, make('summary', { textContent: 'All tokens' }),
      make('div', { className: 'map' }, all)));

  let cell, margin; // in CSS pixels
  const draw = () => {
    if (shown.layer !== layer.value) shown = { layer: layer.value, heads: block(+layer.value, text).heads };
    if (shown.head !== head.value) {
      const bytes = atob(shown.heads[head.value]);
      Object.assign(shown, { head: head.value, bytes, picture: attentionPicture(bytes, names.length, names.length) });
    }
    const drawn = drawAttention(canvas, names, shown.picture, Math.min(640, map.clientWidth || 640)), { paint } = drawn;
    ({ cell, margin } = drawn);
    paint.strokeStyle = '#d1571b';
    paint.lineWidth = 1;
    paint.strokeRect(.5, query * cell + .5, (query + 1) * cell - 1, cell - 1);
    paint.lineWidth = 2;
    paint.strokeRect(key * cell + 1, query * cell + 1, cell - 2, cell - 2);
    for (const button of heads.querySelectorAll('button'))
      button.ariaPressed = button.title === `layer ${layer.value}, head ${head.value}`;
    weight.textContent = `query ${query} “${names[query]}” → key ${key} “${names[key]}”: \
${(weightAt(shown.bytes, query, key) / 1e4).toFixed(4)}`;
  };
  const move = (q, k) => {
    [query, key] = [q, k].map((place) => Math.max(0, Math.min(names.length - 1, place)));
    draw();
  };

  const table = (caption, rows) => {
    const made = make('table', {}, make('caption', { textContent: caption }));
    for (const cells of rows) made.insertRow().append(...cells.map((cell) => make('td', {}, cell)));
    return made;
  };
  // Returns the candidates for the next token and their probabilities after temperature and top-k.
  const expected = ({ next, scales }) => {
    if (temperature.value === '0') return next.map(([name], place) => [visible(name), place ? 0 : 1]);
    const kept = top.selectedIndex ? next.slice(0, +top.value) : next;
    const scale = scales[data.temperatures.indexOf(+temperature.value)];
    const shares = kept.map(([, logit]) => Math.exp(logit / temperature.value - scale));
    const whole = top.selectedIndex ? shares.reduce((sum, share) => sum + share, 0) : 1;
    return kept.map(([name], place) => [visible(name), shares[place] / whole]);
  };
  const line = (candidates) => candidates.map(([name, share]) => `${visible(name)} ${share.toFixed(4)}`).join(' · ');
  const expect = (to) => {
    place = to;
    for (const [at, button] of [...tokens.children].entries()) button.ariaPressed = at === place;
    const bar = (share) => {
      const made = make('span', { className: 'bar' });
      made.style.width = `${12 * share}rem`;
      return made;
    };
    next.replaceChildren(
      table(`expected after “${names[place]}”`,
        expected(data.tokens[place]).map(([name, share]) => [name, share.toFixed(4), bar(share)])),
      table('predictions if the model ended after a block',
        data.predictions.map((predictions, layer) => [`after block ${layer}`, line(predictions[place])])));
  };
  const list = () => {
    const cells = (kind, texts) => make('tr', {}, ...texts.map((text) => make(kind, {}, text)));
    all.replaceChildren(cells('th', ['position', 'token', 'ID', 'loss', 'next tokens and their probabilities']),
      ...data.tokens.map((token, place) =>
        cells('td', [place, names[place], token.id, token.loss?.toFixed(4) ?? '', line(expected(token))])));
  };
  const again = () => {
    top.disabled = seed.disabled = temperature.value === '0';
    expect(place);
    list();
  };
  const refresh = (select, options) => {
    const before = select.value;
    if (select.length !== options.length)
      select.replaceChildren(...options.map((option) => make('option', { textContent: option })));
    if (options.map(String).includes(before)) select.value = before;
  };
  const show = () => {
    data = look(text);
    const n = data.tokens.length;
    names = data.tokens.map(({ text }) => visible(text));
    about.textContent = `Model ${data.name}, ${n} tokens` +
      (data.left_out ? `. The ${data.left_out} tokens before them are ignored because they don't fit in the model's context.` : '.');
    tokens.replaceChildren(...data.tokens.map(({ loss }, place) => {
      const button = make('button', { type: 'button', textContent: names[place],
        title: loss === null ? 'the first token has no loss' : `loss ${loss.toFixed(4)}` });
      button.style.background = lossColor(loss, 10);
      for (const event of ['click', 'focus', 'pointerenter']) button.addEventListener(event, () => {
        expect(place);
        move(place, Math.min(key, place));
      });
      return button;
    }));
    if (!temperature.length) {
      if (write) temperature.append(make('option', { value: 0, textContent: '0 (greedy)' }));
      temperature.append(...data.temperatures.map((option) => make('option', { textContent: option })));
      temperature.value = data.temperature ?? 1;
    }
    const up = (count) => Array.from({ length: count }, (_, place) => place);
    refresh(layer, up(data.layers));
    refresh(head, up(data.heads));
    data.predictions = [];
    // Blocks are requested one at a time because the weights for a long text take up much memory.
    heads.replaceChildren(...up(data.layers).map((layer) => {
      const { heads, predictions } = block(layer, text);
      data.predictions.push(predictions);
      return make('div', {}, ...heads.map((bytes, head) => {
        const button = make('button', { type: 'button', title: `layer ${layer}, head ${head}` },
          attentionPicture(atob(bytes), n, Math.min(n, 48)));
        button.addEventListener('click', () => choose(layer, head));
        return button;
      }));
    }));
    shown = {};
    place = n - 1;
    [query, key] = [n - 1, 0];
    again();
    draw();
  };
  const choose = (to, of) => {
    [layer.value, head.value] = [to, of];
    draw();
  };

  const trying = (what) => () => {
    try {
      status.textContent = what() ?? '';
    } catch (error) {
      status.textContent = `The model can't process this text: ${error.message}`;
    }
  };
  const change = () => {
    text = field.value;
    show();
  };
  field.addEventListener('change', trying(change));
  // Tokens are generated for 50 ms at a time, so that the page can respond to the reader in between.
  let writing;
  const stop = () => {
    clearTimeout(writing?.timer);
    writing = undefined;
    go.textContent = 'Continue';
  };
  const goOn = trying(() => {
    const { before, start } = writing, until = performance.now() + 50;
    let part;
    try {
      do part = writeNext(); while (!part.done && performance.now() < until);
    } catch (error) {
      stop();
      throw error;
    }
    written.replaceChildren(before, make('mark', { textContent: part.text }));
    written.hidden = false;
    written.scrollTop = written.scrollHeight;
    const each = (performance.now() - start) / Math.max(1, part.count);
    if (part.done) {
      stop();
      field.value = before + part.text;
      field.scrollTop = field.scrollHeight;
      change();
    } else writing.timer = setTimeout(goOn);
    return `${part.count} tokens, ${each.toFixed(1)} ms per token`;
  });
  go.addEventListener('click', trying(() => {
    if (writing) {
      field.value = written.textContent;
      stop();
      change();
      return 'Stopped.';
    }
    write(field.value, { count: +count.value, temperature: +temperature.value, top_k: +top.value || 0, seed: +seed.value });
    writing = { before: field.value, start: performance.now() };
    written.replaceChildren(field.value); // the text to keep if the reader stops immediately
    go.textContent = 'Stop';
    writing.timer = setTimeout(goOn);
    return 'Generating …';
  }));
  for (const select of [temperature, top]) select.addEventListener('change', again);
  for (const select of [layer, head]) select.addEventListener('change', draw);
  for (const event of ['pointerdown', 'pointermove']) canvas.addEventListener(event, ({ clientX, clientY }) => {
    const box = canvas.getBoundingClientRect(), at = (place) => Math.floor((place - margin - 1) / cell); // 1 is the width of the border
    move(at(clientY - box.top), at(clientX - box.left));
  });
  canvas.addEventListener('keydown', (event) => {
    const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] ?? [];
    if (down === undefined) return;
    event.preventDefault();
    move(query + down, key + right);
  });
  onColorScheme(trying(show));
  trying(show)();
}
