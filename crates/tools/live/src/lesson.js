// Lets the reader train a small model on the page. The code of training.rs runs in a worker, so the
// page responds to the reader while the model is being trained. The worker's script is a Blob
// because browsers don't allow pages opened from a local file to load a worker from another file.
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
  const waiting = []; // Requests without an answer. The worker answers in order.
  worker.onmessage = ({ data }) => {
    const { resolve, reject } = waiting.shift();
    data.fault ? reject(new Error(data.fault)) : resolve(data);
  };
  worker.onerror = (event) => waiting.splice(0).forEach(({ reject }) => reject(new Error(event.message)));
  const ask = (request) => new Promise((resolve, reject) => {
    waiting.push({ resolve, reject });
    worker.postMessage(request);
  });

  const paragraph = (textContent) => make('p', { className: 'dim', textContent });
  const digits = (x) => x === null ? 'not finite' : Math.abs(x) < 1e4 ? x.toFixed(4) : x.toExponential(2);
  const share = (probability) => probability.toPrecision(3);
  /** Creates an input with a label. `tell` shows a message about the input's value. */
  let fields = 0;
  const entry = (text, properties) => {
    const fault = make('span', { className: 'fault', id: `lesson-fault-${++fields}`, role: 'alert' });
    const input = make('input', { autocomplete: 'off', spellcheck: false, ...properties });
    input.setAttribute('aria-describedby', fault.id);
    const label = make('label', {}, `${text} `, input, ' ', fault);
    const tell = (message, invalid = false) => {
      fault.textContent = message;
      input.setAttribute('aria-invalid', invalid);
    };
    return { label, input, tell };
  };
  /** Creates a selection list with a label. */
  const chooser = (text) => {
    const select = make('select');
    return { select, label: make('label', {}, `${text} `, select) };
  };

  const fail = (error) => { status.textContent = `The computation failed: ${error.message}`; };
  // The reader's actions are carried out one after the other. A new action also ends a run: the
  // function that an action receives returns true until the next action is requested.
  let turn = 0, current = Promise.resolve();
  const act = (work) => {
    const mine = ++turn;
    current = current.then(() => work(() => mine === turn)).catch(fail);
  };
  const button = (textContent, onclick) => {
    const made = make('button', { type: 'button', textContent });
    made.addEventListener('click', onclick);
    return made;
  };
  const stepButton = button('Step', () => act(() => train({ steps: 1 })));
  const runButton = button('Run', () => runButton.textContent === 'Run' ? act(run) : ++turn);
  const resetButton = button('Reset', () => act(reset));
  const partsButton = button('Take one step and show its parts', () => act(() => train({ parts: true })));
  const keepButton = button('Keep this run to compare', () => {
    kept = kept ? undefined : { losses, evaluations, baseline, name: described() };
    plot();
  });

  const preset = chooser('model'), layer = chooser('layer'), head = chooser('head');
  const settings = make('span'), status = make('p', { role: 'status' }), command = make('p', { className: 'dim' });
  const chart = make('div'), legend = make('ul', { className: 'legend' });
  const snapshot = make('input', { type: 'range', min: 0, max: 0, value: 0 }), at = make('output');
  const prompt = entry('prompt', { size: 24 }), sample = make('p', { className: 'written', ariaLive: 'off' });
  const lines = ['a line of the training text', 'a line of the validation text'].map((text) =>
    ({ ...entry(text, { size: 40 }), tokens: make('p', { className: 'tokens' }), mean: make('span', { className: 'dim' }) }));
  const canvas = make('canvas', { role: 'img', ariaLabel: 'Attention weights' }), map = make('div', { className: 'map', tabIndex: 0 }, canvas);
  const parts = make('div');
  root.classList.add('view', 'lesson');
  root.replaceChildren(
    make('div', { className: 'form' }, make('p', {}, preset.label, settings),
      make('p', {}, stepButton, ' ', runButton, ' ', resetButton, ' ', keepButton), status),
    make('div', { className: 'columns' },
      make('div', {}, chart, legend, command,
        make('h3', { textContent: 'Attention' }),
        paragraph('The picture shows one head’s attention weights for the line of the training text. Rows are queries and columns are keys. The largest weight of each row has the strongest color.'),
        make('p', {}, layer.label, head.label), map),
      make('div', {}, make('p', {}, make('label', {}, 'snapshot ', snapshot), at),
        paragraph('A copy of the model is kept after 0, 1, 2, 4, 8, ... steps. The last position of the slider selects the current model.'),
        prompt.label, sample,
        ...lines.flatMap(({ label, tokens, mean }) => [label, tokens, mean]),
        paragraph('The stronger a token’s color, the larger its loss. Point at a token to see its loss.'))),
    make('h3', { textContent: 'One step, part by part' }), partsButton, parts);

  let about, losses, evaluations, baseline, step, snapshots, kept, shown, view;
  let valid = false, done = false;
  const allow = () => [stepButton, runButton, partsButton].forEach((it) => { it.disabled = !valid || done; });
  /** Returns the settings whose values differ from those of the preset. */
  const differing = () => {
    const { values } = about.presets.find(({ name }) => name === preset.select.value);
    return about.settings.filter(({ option, field }) => Number(field.input.value) !== values[option])
      .map(({ option, label, field }) => ({ option, label, value: field.input.value.trim() }));
  };
  const described = () => [preset.select.value, ...differing().map(({ label, value }) => `${label} ${value}`)].join(', ');

  const report = ({ diverged }) => {
    const last = losses.at(-1), checked = evaluations.at(-1);
    status.textContent = `step ${step}${done && !diverged ? ' (the last step)' : ''}` +
      (last ? `: training loss ${digits(last[1])}` : '') +
      (checked ? `, validation loss ${digits(checked[2])} at step ${checked[0]}` : '') +
      (diverged ? `. Training failed: ${diverged}` : '');
  };

  /** Draws the losses of the current run and of the run that was kept, and the loss of a guess. */
  const plot = () => {
    const runs = [{ losses, evaluations, baseline }, ...kept ? [kept] : []];
    const width = Math.max(300, Math.min(640, chart.clientWidth || 640)), [height, left, bottom] = [240, 36, 34];
    const steps = Math.max(20, ...runs.map(({ losses }) => losses.at(-1)?.[0] ?? 0));
    const most = Math.max(...runs.map(({ baseline, losses }) =>
      Math.min(2.5 * baseline, Math.max(baseline, ...losses.map(([, loss]) => loss))))) * 1.05;
    const x = (step) => left + (width - left - 10) * step / steps;
    const y = (loss) => 14 + (height - bottom - 14) * (1 - Math.min(most, loss) / most);
    const text = (at, height, what, anchor) => `<text x="${at}" y="${height}" text-anchor="${anchor}">${what}</text>`;
    const ticks = (most) => {
      const unit = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((unit) => most / unit <= 7) ?? 1000;
      return Array.from({ length: Math.floor(most / unit) + 1 }, (_, place) => place * unit);
    };
    const rule = (kind, x1, x2, y1, y2) => `<line class="${kind}" x1="${x1}" x2="${x2}" y1="${y1}" y2="${y2}"/>`;
    const grid = ticks(most).map((loss) => rule('grid', left, width - 10, y(loss), y(loss)) + text(left - 6, y(loss) + 4, loss, 'end'))
      .concat(ticks(steps).map((step) => rule('grid', x(step), x(step), 14, height - bottom) + text(x(step), height - bottom + 15, step, 'middle')));
    const curve = (kind, points) => `<polyline class="${kind}" points="${points.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(' ')}"/>`;
    const curves = ({ losses, evaluations, name }) => curve(name ? 'training kept' : 'training', losses) +
      curve(name ? 'validation kept' : 'validation', evaluations.map(([step, , loss]) => [step, loss]));
    // All values in this HTML are numbers, so it can't contain HTML that the reader typed.
    chart.innerHTML = `<svg class="losses" viewBox="0 0 ${width} ${height}" role="img" aria-label="Training and validation loss by step">
      ${grid.join('')}${rule('baseline', left, width - 10, y(baseline), y(baseline))}${runs.map(curves).reverse().join('')}
      ${text(left - 6, 10, 'loss', 'end')}${text(width - 10, height - 4, 'step', 'end')}
      ${text(width - 12, y(baseline) - 5, 'ln V', 'end')}</svg>`;
    const lowest = ({ evaluations }) => {
      const [step, , loss] = evaluations.reduce((best, it) => it[2] < best[2] ? it : best, evaluations[0] ?? []);
      return step === undefined ? '' : ` (lowest: ${digits(loss)} at step ${step})`;
    };
    const item = (kind, text) => make('li', {}, make('span', { className: `key ${kind}` }), text);
    legend.replaceChildren(item('training', 'training loss'), item('validation', `validation loss${lowest(runs[0])}`),
      item('baseline', `ln V = ${digits(baseline)}, the loss if all tokens are equally probable`));
    if (kept) legend.append(item('training kept', `training loss of the run that you kept: ${kept.name}`),
      item('validation kept', `validation loss of the run that you kept${lowest(kept)}`));
    if (kept && kept.baseline !== baseline)
      legend.append(make('li', { textContent: 'The two models have different tokens, so their losses can’t be compared.' }));
    keepButton.textContent = kept ? 'Remove the kept run' : 'Keep this run to compare';
    keepButton.disabled = !kept && !losses.length;
  };

  const drawMap = () => {
    const names = view.lines[0].tokens.map(([text]) => visible(text) || '�'), n = names.length;
    map.hidden = n === 0;
    if (n === 0) return;
    drawAttention(canvas, names, attentionPicture(atob(view.attention), n, n), Math.min(480, map.clientWidth || 480));
    canvas.ariaLabel = `Attention weights of layer ${layer.select.value}, head ${head.select.value}, after step ${view.step}`;
  };
  /** Shows what the current model, or the selected snapshot, does with the reader's texts. */
  const look = async () => {
    const place = +snapshot.value, texts = lines.map(({ input }) => input.value);
    const asked = { prompt: prompt.input.value, tokens: 80, lines: texts, layer: +layer.select.value, head: +head.select.value };
    if (place < snapshots.length) asked.snapshot = place;
    view = await ask({ view: asked });
    at.textContent = ` step ${view.step}${place < snapshots.length ? '' : ' (now)'}`;
    prompt.tell(view.prompt_note);
    sample.replaceChildren(asked.prompt, make('mark', { textContent: view.sample }));
    for (const [place, { tell, tokens, mean }] of lines.entries()) {
      const { note, tokens: all } = view.lines[place], known = all.filter(([, loss]) => loss !== null);
      tell(note);
      tokens.replaceChildren(...all.map(([text, loss]) => {
        const made = make('span', { textContent: visible(text) || '�',
          title: loss === null ? 'The first token has no loss.' : `loss ${digits(loss)}` });
        made.style.background = lossColor(loss, 8);
        return made;
      }));
      mean.textContent = known.length ? `mean loss ${digits(known.reduce((sum, [, loss]) => sum + loss, 0) / known.length)}` : '';
    }
    drawMap();
  };

  /** Shows the losses and evaluations of new steps. */
  const take = (answer) => {
    losses.push(...answer.losses);
    evaluations.push(...answer.evaluations);
    const follows = +snapshot.value === snapshots.length; // The slider selects the current model.
    ({ baseline, step, snapshots } = answer);
    done = answer.done || Boolean(answer.diverged);
    snapshot.max = snapshots.length;
    if (follows) snapshot.value = snapshots.length;
    allow();
    report(answer);
    plot();
    return answer;
  };
  const train = async (request) => {
    const answer = take(await ask(request));
    if (answer.parts) showParts(answer);
    await look();
  };
  const run = async (goesOn) => {
    runButton.textContent = 'Pause';
    try {
      let steps = 1, looked = performance.now();
      while (goesOn() && valid && !done) {
        const start = performance.now();
        take(await ask({ steps }));
        // The number of steps is adjusted so that an answer takes about a quarter of a second.
        steps = Math.max(1, Math.min(100, Math.round(steps * 250 / Math.max(1, performance.now() - start))));
        if (performance.now() - looked > 1000) {
          await look();
          looked = performance.now();
        }
      }
      await look();
    } finally {
      runButton.textContent = 'Run';
    }
  };
  const choices = ({ select }, count) => select.replaceChildren(
    ...Array.from({ length: count }, (_, place) => make('option', { textContent: place })));
  const reset = async () => {
    const values = {};
    for (const { option, field } of about.settings) {
      const text = field.input.value.trim(), number = Number(text);
      values[option] = text === '' || Number.isNaN(number) ? text : number;
    }
    const answer = await ask({ lesson: preset.select.value, values });
    valid = !answer.faults;
    for (const { option, label, field } of about.settings) {
      const fault = answer.faults?.[option];
      field.tell(fault ?? '', Boolean(fault));
    }
    allow();
    if (!valid) {
      status.textContent = 'A setting has an invalid value. Correct it to go on.';
      return;
    }
    [losses, evaluations, snapshots] = [[], [], []];
    snapshot.max = snapshot.value = 0;
    choices(layer, answer.layers);
    choices(head, answer.heads);
    command.replaceChildren(`The model has ${answer.parameters.toLocaleString('en')} weights and a vocabulary of ${answer.vocab_size} tokens. To start the same run in a terminal: `,
      make('code', { textContent: ['cargo gpt train --preset', preset.select.value,
        ...differing().flatMap(({ option, value }) => [`--${option}`, value])].join(' ') }));
    parts.replaceChildren();
    take(answer);
    await look();
  };

  const table = (head, rows) => make('div', { className: 'map', tabIndex: 0 }, make('table', {},
    make('tr', {}, ...head.map((text) => make('th', { scope: 'col', textContent: text }))),
    ...rows.map((cells) => make('tr', {}, ...cells.map((cell) => make('td', {}, cell))))));
  /** Shows the parts of the last step. */
  const showParts = ({ parts: { windows, positions, loss, loss_after, layers, grad_norm, max_grad_norm, learning_rate } }) => {
    const prediction = make('div'), clip = Math.min(1, max_grad_norm / grad_norm);
    const tokens = make('p', { className: 'tokens' }, ...positions.map(({ token, loss }, place) => {
      const made = button(visible(token) || '�', () => choose(place));
      made.style.background = lossColor(loss, 8);
      return made;
    }));
    const choose = (place) => {
      const { target, logit, loss, rank, candidates } = positions[place], probability = Math.exp(-loss);
      [...tokens.children].forEach((it, other) => { it.ariaPressed = other === place; });
      const row = (text, logit, probability) => [visible(text) || '�', digits(logit), share(probability)];
      const rows = candidates.map(([text, logit, probability]) => row(text, logit, probability));
      if (rank >= rows.length) rows.push(['…', '', ''], row(target, logit, probability));
      const cells = rank < candidates.length ? rows[rank] : rows.at(-1);
      cells[0] = make('strong', { textContent: `${cells[0]} (target)` });
      prediction.replaceChildren(table(['next token', 'logit', 'probability'], rows),
        make('p', { textContent: `The target has a probability of ${share(probability)}, so the loss at this position is -ln ${share(probability)} = ${digits(loss)}.` }));
    };
    const heading = (textContent) => make('h4', { textContent });
    parts.replaceChildren(
      heading(`1. The batch of step ${step}`),
      make('details', {}, make('summary', { textContent: `${windows.length} windows of ${positions.length} tokens, taken from the training text in random order` }),
        make('ol', { className: 'windows', tabIndex: 0 }, ...windows.map((text) => make('li', { textContent: visible(text) })))),
      heading('2. Forward: the logits and the loss'),
      paragraph('These are the tokens of the first window. Select a token to see what the model predicted after it. The model saw this token and all tokens before it. The target is the next token of the text. The predictions were computed without dropout.'),
      tokens, prediction,
      make('p', { textContent: `The mean over all ${windows.length * positions.length} positions of the batch is the loss: ${digits(loss)}.` }),
      heading('3. Backward: the gradients'),
      make('p', { textContent: `The gradient of all weights has a norm of ${digits(grad_norm)}. ` + (clip < 1
        ? `This norm is above ${max_grad_norm}, so all gradients are multiplied by ${digits(clip)} (clipping).`
        : `This norm is at most ${max_grad_norm}, so the gradients aren’t clipped.`) }),
      heading('4. Step: the update of the weights'),
      make('p', { textContent: `AdamW updated the weights with a learning rate of ${Number(learning_rate.toPrecision(4))}. With the new weights, the same batch has a loss of ${digits(loss_after)}.` }),
      table(['layer', 'norm of the gradient', 'norm of the weights', 'norm of the update', 'update in % of the weights'],
        layers.map(([name, [weights, gradient, change]]) => [make('code', { textContent: name }),
          digits(gradient), digits(weights), digits(change), (100 * change / weights).toFixed(2)])));
    choose(positions.length - 1);
  };

  const defaults = () => {
    const { values } = about.presets.find(({ name }) => name === preset.select.value);
    for (const { option, field } of about.settings) field.input.value = values[option];
  };
  preset.select.addEventListener('change', () => {
    defaults();
    act(reset);
  });
  // If the reader changes a text or another choice, the view is updated without ending a run.
  const lookAgain = () => runButton.textContent === 'Run' ? act(look) : look().catch(fail);
  for (const { input } of [prompt, ...lines]) input.addEventListener('change', lookAgain);
  for (const { select } of [layer, head]) select.addEventListener('change', lookAgain);
  snapshot.addEventListener('input', lookAgain);
  onColorScheme(() => view && drawMap());
  allow(); // The buttons are disabled until the first answer arrives.
  keepButton.disabled = true;
  act(async () => {
    about = await ask({ wasm: liveBytes, presets: true });
    preset.select.append(...about.presets.map(({ name }) => make('option', { textContent: name })));
    for (const setting of about.settings) {
      setting.field = entry(setting.label, { inputMode: 'decimal', size: 6, title: setting.rule });
      setting.field.input.addEventListener('change', () => act(reset));
      settings.append(' ', setting.field.label);
    }
    [prompt.input.value, lines[0].input.value, lines[1].input.value] = [about.prompt, about.line, about.held_out];
    defaults();
    await reset();
  });
})();
