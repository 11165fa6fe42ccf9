'use strict';
const read = element => JSON.parse(element.textContent);
const data = read(document.getElementById('data'));
const blocks = Array.from(document.querySelectorAll('script.block'), read);
const by = id => document.getElementById(id);
const n = data.names.length, canvas = by('map'), status = by('weight');
const cell = Math.max(2, Math.min(28, Math.floor(640 / n)));
const paint = canvas.getContext('2d');
// Room for the tokens on both axes, where they can be read.
paint.font = '12px sans-serif';
const margin = cell < 14 ? 0 : 8 + Math.ceil(Math.max(...data.names.map(name => paint.measureText(name).width)));
const element = (name, properties) => Object.assign(document.createElement(name), properties);
let bytes, query = n - 1, key = 0, place = n - 1;
// Ten thousandths.
const weight = (q, k, of = bytes) => {
  if (k > q) return 0;
  const at = q * (q + 1) + 2 * k;
  return of.charCodeAt(at) | of.charCodeAt(at + 1) << 8;
};
const largest = (q, of) => {
  let most = 1;
  for (let k = 0; k <= q; k++) most = Math.max(most, weight(q, k, of));
  return most;
};
const tell = () => {
  status.textContent = `query ${query} “${data.names[query]}” → key ${key} “${data.names[key]}”: ${(weight(query, key) / 1e4).toFixed(4)}`;
};
const draw = () => {
  bytes = atob(blocks[by('layer').value].heads[by('head').value]);
  canvas.width = canvas.height = margin + n * cell;
  paint.translate(margin, margin);
  paint.font = '12px sans-serif';
  paint.fillStyle = '#222';
  if (margin) data.names.forEach((name, place) => {
    const middle = (place + .5) * cell + 4;
    paint.textAlign = 'right';
    paint.fillText(name, -6, middle);
    paint.save();
    paint.rotate(-Math.PI / 2);
    paint.textAlign = 'left';
    paint.fillText(name, 6, middle);
    paint.restore();
  });
  for (let q = 0; q < n; q++) {
    const most = largest(q, bytes);
    for (let k = 0; k <= q; k++) {
      paint.fillStyle = `rgba(8,64,129,${weight(q, k) / most})`;
      paint.fillRect(k * cell, q * cell, cell, cell);
    }
  }
  paint.strokeStyle = '#d1571b';
  paint.lineWidth = 2;
  paint.strokeRect(key * cell + 1, query * cell + 1, cell - 2, cell - 2);
  for (const button of document.querySelectorAll('#heads button'))
    button.setAttribute('aria-pressed', button.dataset.layer == by('layer').value && button.dataset.head == by('head').value);
  tell();
};
const go = (q, k) => {
  query = Math.max(0, Math.min(n - 1, q));
  key = Math.max(0, Math.min(n - 1, k));
  draw();
};
// A head as a small picture: of a long text some of the rows and columns.
const glance = (layer, head) => {
  const button = element('button', { type: 'button', title: `layer ${layer}, head ${head}` });
  const size = Math.min(n, 48), small = element('canvas', { width: size, height: size });
  const paint = small.getContext('2d'), of = atob(blocks[layer].heads[head]);
  small.style.width = small.style.height = '48px';
  for (let y = 0; y < size; y++) {
    const q = Math.floor(y * n / size), most = largest(q, of);
    for (let x = 0; x <= y; x++) {
      paint.fillStyle = `rgba(8,64,129,${weight(q, Math.floor(x * n / size), of) / most})`;
      paint.fillRect(x, y, 1, 1);
    }
  }
  Object.assign(button.dataset, { layer, head });
  button.append(small);
  button.addEventListener('click', () => {
    by('layer').value = layer;
    by('head').value = head;
    draw();
  });
  return button;
};
const table = (caption, rows) => {
  const made = element('table', {});
  made.append(element('caption', { textContent: caption }));
  for (const cells of rows) {
    const row = made.insertRow();
    for (const cell of cells) row.insertCell().append(cell);
  }
  return made;
};
const expect = at => {
  place = at;
  for (const button of document.querySelectorAll('.tokens button'))
    button.setAttribute('aria-pressed', button.dataset.place == place);
  const name = data.names[place], choice = by('temperature');
  const next = data.next[place].map(([name, logit]) => {
    const probability = Math.exp(logit / choice.value - data.scales[place][choice.selectedIndex]);
    const bar = element('span', { className: 'bar' });
    bar.style.width = `${12 * probability}rem`;
    return [name, probability.toFixed(4), bar];
  });
  const says = blocks.map((block, layer) => [`after block ${layer}`, block.says[place]]);
  by('next').replaceChildren(
    table(`expected after “${name}”`, next),
    table('what the model would say if it ended with a block', says));
};
for (const button of document.querySelectorAll('.tokens button'))
  for (const event of ['click', 'focus', 'pointerenter'])
    button.addEventListener(event, () => expect(+button.dataset.place));
by('temperature').addEventListener('change', () => expect(place));
blocks.forEach((block, layer) => {
  by('layer').append(element('option', { textContent: layer }));
  const row = element('div', {});
  block.heads.forEach((_, head) => row.append(glance(layer, head)));
  by('heads').append(row);
});
blocks[0].heads.forEach((_, head) => by('head').append(element('option', { textContent: head })));
for (const id of ['layer', 'head']) by(id).addEventListener('change', draw);
canvas.addEventListener('pointermove', event => {
  const box = canvas.getBoundingClientRect(), shrunk = canvas.width / box.width;
  const at = place => Math.floor((place * shrunk - margin) / cell);
  go(at(event.clientY - box.top), at(event.clientX - box.left));
});
canvas.addEventListener('keydown', event => {
  const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key] || [];
  if (down === undefined) return;
  event.preventDefault();
  go(query + down, key + right);
});
expect(n - 1);
draw();
