'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const by = id => document.getElementById(id);
const n = data.names.length, canvas = by('map'), status = by('weight');
const cell = Math.max(2, Math.min(28, Math.floor(640 / n)));
const paint = canvas.getContext('2d');
// Room for the tokens on both axes, where they can be read.
paint.font = '12px sans-serif';
const margin = cell < 14 ? 0 : 8 + Math.ceil(Math.max(...data.names.map(name => paint.measureText(name).width)));
let bytes, query = n - 1, key = 0;
// Ten thousandths.
const weight = (q, k) => {
  if (k > q) return 0;
  const at = q * (q + 1) + 2 * k;
  return bytes.charCodeAt(at) | bytes.charCodeAt(at + 1) << 8;
};
const tell = () => {
  status.textContent = `query ${query} “${data.names[query]}” → key ${key} “${data.names[key]}”: ${(weight(query, key) / 1e4).toFixed(4)}`;
};
const draw = () => {
  bytes = atob(data.attention[by('layer').value][by('head').value]);
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
    let most = 1;
    for (let k = 0; k <= q; k++) most = Math.max(most, weight(q, k));
    for (let k = 0; k <= q; k++) {
      paint.fillStyle = `rgba(8,64,129,${weight(q, k) / most})`;
      paint.fillRect(k * cell, q * cell, cell, cell);
    }
  }
  paint.strokeStyle = '#d1571b';
  paint.lineWidth = 2;
  paint.strokeRect(key * cell + 1, query * cell + 1, cell - 2, cell - 2);
  tell();
};
const go = (q, k) => {
  query = Math.max(0, Math.min(n - 1, q));
  key = Math.max(0, Math.min(n - 1, k));
  draw();
};
const expect = place => {
  for (const button of document.querySelectorAll('.tokens button'))
    button.setAttribute('aria-pressed', button.dataset.place == place);
  const table = document.createElement('table');
  table.append(Object.assign(document.createElement('caption'), { textContent: `expected behind “${data.names[place]}”` }));
  for (const [name, probability] of data.next[place]) {
    const row = table.insertRow(), bar = document.createElement('span');
    row.insertCell().textContent = name;
    row.insertCell().textContent = probability.toFixed(4);
    bar.className = 'bar';
    bar.style.width = `${12 * probability}rem`;
    row.insertCell().append(bar);
  }
  by('next').replaceChildren(table);
};
for (const button of document.querySelectorAll('.tokens button'))
  for (const event of ['click', 'focus', 'pointerenter'])
    button.addEventListener(event, () => expect(+button.dataset.place));
for (const id of ['layer', 'head']) by(id).addEventListener('change', draw);
canvas.addEventListener('pointermove', event => {
  const box = canvas.getBoundingClientRect();
  const at = place => Math.floor((place - margin) / cell);
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
