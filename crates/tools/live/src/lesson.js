// A model that learns in the page, by lesson.rs in a worker, so that the page answers meanwhile.
// The worker comes from a Blob, because browsers refuse workers from `file:` pages.
(() => {
  const root = document.getElementById('lesson');
  if (!root) return;
  const source = `${openLive}
    let ask;
    onmessage = ({ data: { wasm, ...request } }) => {
      if (wasm) ask = openLive(new WebAssembly.Module(wasm), () => {}).ask;
      try {
        postMessage(ask(request));
      } catch (error) {
        postMessage({ fault: error.message });
      }
    };`;
  const worker = new Worker(URL.createObjectURL(new Blob([source], { type: 'text/javascript' })));
  const waiting = []; // the worker answers in order
  worker.onmessage = ({ data }) => {
    const { resolve, reject } = waiting.shift();
    data.fault ? reject(new Error(data.fault)) : resolve(data);
  };
  worker.onerror = (event) => waiting.splice(0).forEach(({ reject }) => reject(new Error(event.message)));
  const ask = (request) => new Promise((resolve, reject) => {
    waiting.push({ resolve, reject });
    worker.postMessage(request);
  });

  let presets = [];
  const labelled = (label, field) => make('label', {}, `${label} `, field);
  const button = (textContent, onclick) => {
    const made = make('button', { type: 'button', textContent });
    made.addEventListener('click', () => onclick().catch(fail));
    return made;
  };
  const preset = make('select');
  const rate = make('input', { inputMode: 'decimal', size: 8, autocomplete: 'off' });
  const prompt = make('input', { value: root.dataset.prompt, size: 24, autocomplete: 'off', spellcheck: false });
  const line = make('input', { value: root.dataset.line, size: 48, autocomplete: 'off', spellcheck: false });
  const [layer, head] = [make('select'), make('select')];
  const snapshot = make('input', { type: 'range', min: 0, max: 0, value: 0 });
  const status = make('p', { role: 'status' }), command = make('p', { className: 'dim' });
  const chart = make('div'), sample = make('p', { className: 'written', ariaLive: 'off' });
  const tokens = make('p', { className: 'tokens lesson-tokens' }), at = make('output');
  const canvas = make('canvas', { role: 'img' });
  const stepButton = button('Step', () => halted(() => train(1)));
  const runButton = button('Run', () => run());
  const resetButton = button('Reset', () => halted(reset));
  root.classList.add('view');
  root.replaceChildren(
    make('p', {}, labelled('model', preset), labelled('learning rate', rate), stepButton, ' ', runButton, ' ', resetButton),
    status, chart, make('p', {}, labelled('prompt', prompt)), sample, make('p', {}, labelled('line', line)), tokens,
    make('p', { className: 'dim', textContent: 'The stronger a token’s colour, the larger its loss. Below: one head’s attention weights for this line; rows are queries, columns are keys.' }),
    make('p', {}, labelled('layer', layer), labelled('head', head)), make('div', { className: 'map' }, canvas),
    make('p', {}, labelled('snapshots', snapshot), at), command);

  let losses, evaluations, baseline, step, snapshots, every, running, done;
  const fail = (error) => {
    running = false;
    runButton.textContent = 'Run';
    status.textContent = `That can’t be computed: ${error.message}`;
  };
  /** Stops a run and waits for its last step before the next request. */
  const halted = async (then) => {
    running = false;
    await current;
    await then();
  };
  let current = Promise.resolve();

  const report = () => {
    const last = losses.at(-1), checked = evaluations.at(-1);
    status.textContent = `step ${step}${done ? ' (the last)' : ''}` +
      (last ? `: training loss ${last[1].toFixed(4)}` : '') +
      (checked ? `, validation loss ${checked[2].toFixed(4)} at step ${checked[0]}` : '') +
      `; a guess has ln V = ${baseline.toFixed(4)}`;
  };

  // Both losses over the steps, and the loss of a guess among all tokens.
  const plot = () => {
    const [width, height, left, bottom] = [640, 200, 40, 24], steps = Math.max(20, step);
    const top = Math.max(baseline, ...losses.map(([, loss]) => loss)) * 1.05;
    const x = (step) => left + (width - left - 8) * step / steps, y = (loss) => (height - bottom) * (1 - loss / top) + 4;
    const path = (points) => points.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(' ');
    const text = (at, height, what, anchor = 'start') => `<text x="${at}" y="${height}" text-anchor="${anchor}">${what}</text>`;
    const marks = [1, 2, 3, 4, 5, 6, 7].filter((loss) => loss < top).map((loss) => text(left - 6, y(loss) + 4, loss, 'end'));
    // Our own numbers, no text of the reader.
    chart.innerHTML = `<svg class="losses" viewBox="0 0 ${width} ${height}" role="img" aria-label="Training and validation loss by step; the baseline is ln V">
      <line class="baseline" x1="${left}" x2="${width - 8}" y1="${y(baseline)}" y2="${y(baseline)}"/>
      <polyline class="training" points="${path(losses)}"/><polyline class="validation" points="${path(evaluations.map(([step, , loss]) => [step, loss]))}"/>
      ${marks.join('')}${text(left, height - 6, 'step 0')}${text(width - 8, height - 6, steps, 'end')}
      ${text(width - 8, y(baseline) + 14, 'ln V', 'end')}</svg>
      <p class="dim"><span class="training">—</span> training, <span class="validation">—</span> validation, dashed: a guess</p>`;
  };

  const show = (view) => {
    sample.replaceChildren(view.prompt, make('mark', { textContent: view.sample }));
    tokens.replaceChildren(...view.tokens.map(([text, loss]) => {
      const made = make('span', { textContent: text.replace(/ /g, '␣').replace(/\n/g, '⏎') || '�',
        title: loss === null ? 'the first token has no loss' : `loss ${loss.toFixed(4)}` });
      made.style.background = `rgba(209,87,27,${Math.min(1, (loss ?? 0) / 8)})`;
      return made;
    }));
    const size = view.tokens.length, bytes = atob(view.attention), image = new ImageData(size, size);
    for (let query = 0, place = 0; query < size; query++) for (let key = 0; key <= query; key++, place += 2) {
      const weight = (bytes.charCodeAt(place) | bytes.charCodeAt(place + 1) << 8) / 1e4;
      image.data.set([8, 64, 129, 255 * weight], 4 * (query * size + key));
    }
    [canvas.width, canvas.height] = [size, size];
    canvas.style.width = canvas.style.height = `${Math.min(320, size * Math.max(4, Math.floor(320 / size)))}px`;
    canvas.ariaLabel = `Attention weights of layer ${layer.value}, head ${head.value}, after step ${view.step}`;
    canvas.getContext('2d').putImageData(image, 0, 0);
    at.textContent = ` step ${view.step}`;
  };
  const look = async () => {
    const view = { prompt: prompt.value, tokens: 80, line: line.value, layer: +layer.value, head: +head.value };
    return { ...await ask({ view }), prompt: prompt.value, step };
  };
  /** Shows the model as it is; every few steps this is kept, at most ten times. */
  const refresh = async () => {
    const view = await look();
    show(view);
    const last = snapshots.at(-1);
    if (last?.step === step) snapshots[snapshots.length - 1] = view;
    else if (!last || step - last.step >= every) snapshots.push(view);
    if (snapshots.length > 10) {
      snapshots = snapshots.filter((_, place) => place % 2 === 0);
      every *= 2;
    }
    snapshot.max = snapshot.value = snapshots.length - 1;
  };

  const take = (answer) => {
    losses.push(...answer.losses);
    evaluations.push(...answer.evaluations);
    ({ baseline, step, done } = answer);
    report();
  };
  const train = async (steps) => {
    take(await ask({ steps }));
    plot();
    await refresh();
  };
  const run = async () => {
    if (running) {
      running = false;
      return;
    }
    running = true;
    runButton.textContent = 'Pause';
    current = (async () => {
      let steps = 1, shown = performance.now();
      while (running && !done) {
        const start = performance.now();
        take(await ask({ steps }));
        // About four answers a second.
        steps = Math.max(1, Math.min(100, Math.round(steps * 250 / Math.max(1, performance.now() - start))));
        plot();
        if (performance.now() - shown > 1000) {
          await refresh();
          shown = performance.now();
        }
      }
      await refresh();
    })();
    try {
      await current;
    } finally {
      running = false;
      runButton.textContent = 'Run';
    }
  };
  const choices = (select, count) => select.replaceChildren(
    ...Array.from({ length: count }, (_, place) => make('option', { textContent: place })));
  const reset = async () => {
    [losses, evaluations, snapshots, every, done] = [[], [], [], 1, false];
    const request = { lesson: preset.value };
    if (rate.value !== '') request.learning_rate = Number(rate.value);
    rate.setAttribute('aria-invalid', Number.isNaN(request.learning_rate));
    if (Number.isNaN(request.learning_rate)) throw new Error(`the learning rate must be a number, got ${rate.value}`);
    const answer = await ask(request);
    take(answer);
    choices(layer, answer.layers);
    choices(head, answer.heads);
    const { arguments: words } = presets.find(({ name }) => name === preset.value);
    command.replaceChildren(`${answer.parameters.toLocaleString('en')} weights, ${answer.vocab_size} tokens. The same run in a terminal: `,
      make('code', { textContent: `cargo gpt ${words}` }));
    plot();
    await refresh();
  };
  const defaultRate = () => { rate.value = presets.find(({ name }) => name === preset.value).learning_rate; };
  preset.addEventListener('change', () => {
    defaultRate();
    halted(reset).catch(fail);
  });
  rate.addEventListener('change', () => halted(reset).catch(fail));
  const again = () => halted(refresh).catch(fail);
  for (const field of [prompt, line, layer, head]) field.addEventListener('change', again);
  snapshot.addEventListener('input', () => show(snapshots[snapshot.value]));
  current = (async () => {
    ({ presets } = await ask({ wasm: liveBytes, presets: true }));
    preset.append(...presets.map(({ name }) => make('option', { textContent: name })));
    defaultRate();
    await reset();
  })();
  current.catch(fail);
})();
