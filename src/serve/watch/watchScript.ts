/**
 * The program of the page: it takes server-sent events with `fetch`, which can bring a key, and shows what they say.
 * All texts are set as texts: whatever a row says is no markup.
 */
export const WATCH_SCRIPT = `
'use strict';
const KEPT = 300, LANE_SECONDS = 10;
const at = (id) => document.getElementById(id);
const made = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
};
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const figure = (value) => (value >= 100 ? whole.format(value) : value >= 10 ? value.toFixed(1) : value > 0 ? value.toFixed(2) : '0');
const bytes = (value) => {
  let unit = 0;
  for (; value >= 1024 && unit < 5; unit++) value /= 1024;
  return (unit === 0 ? value.toFixed(0) : value >= 100 ? value.toFixed(0) : value.toFixed(1)) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][unit];
};
const duration = (seconds) => {
  const all = Math.max(0, Math.round(seconds));
  const [hours, minutes, rest] = [Math.floor(all / 3600), Math.floor((all % 3600) / 60), String(all % 60).padStart(2, '0')];
  return hours > 0 ? hours + ':' + String(minutes).padStart(2, '0') + ':' + rest : minutes + ':' + rest;
};

let samples = [], lanes = [], about, failed = { rows: [], counts: [] }, state = 'connecting', reason, paused = false, shown = 60, key = '';
const kinds = [];
const kindOf = (name) => {
  if (!kinds.includes(name)) kinds.push(name);
  return kinds.indexOf(name) % 8;
};

function take(event) {
  state = event.state;
  reason = event.reason;
  if (event.about) about = event.about;
  if (event.failed) failed = event.failed;
  samples = samples.concat(event.samples).slice(-KEPT);
  const last = event.samples.at(-1);
  if (last) {
    const now = last.at;
    lanes = lanes.concat(event.stretches.map(([queue, name, start, end, tasks]) => ({ queue, name, start: now - start, end: now - end, tasks }))).filter(({ end }) => end > now - LANE_SECONDS * 1000);
  }
  if (!paused) show();
}

function show() {
  const last = samples.at(-1);
  if (!last) return;
  at('main').hidden = false;
  at('key').hidden = true;
  document.body.dataset.is = state;
  const words = at('state');
  if (words.textContent !== state) words.textContent = state;
  words.dataset.state = state;
  at('title').textContent = about ? about.title : 'Spillway';
  const { done, failed: bad, total, kept = 0, active } = last.rows;
  const all = kept + done + bad;
  const percent = total ? Math.min(100, (100 * all) / total) : undefined;
  document.title = (percent === undefined || state !== 'running' ? state : percent.toFixed(0) + '%') + ' \\u00b7 ' + (about ? about.title : 'Spillway');
  at('time').textContent = duration(last.seconds) + (last.left === undefined ? '' : ', about ' + duration(last.left) + ' left');
  at('reason').hidden = !reason;
  at('reason').textContent = reason || '';
  at('progress').hidden = percent === undefined;
  if (percent !== undefined) {
    at('progress').setAttribute('aria-valuenow', percent.toFixed(0));
    at('progress').firstElementChild.style.width = percent + '%';
  }
  // Of the last seconds; in the end of all.
  const rates = state === 'running' ? average(samples.slice(-5)) : { rows: (done + bad) / last.seconds, generated: last.tokens.generated / last.seconds, prompt: last.tokens.prompt / last.seconds };
  pairs('tiles', [
    ['Rows done', whole.format(all) + (total === undefined ? '' : ' of ' + whole.format(total))],
    ['Rows a second', figure(rates.rows)],
    ['Generated tokens a second', figure(rates.generated)],
    ['Prompt tokens a second', figure(rates.prompt)],
    ['With an error', whole.format(bad)],
    ...(active === undefined ? [] : [['Under way', whole.format(active)]]),
  ], 'div');
  chart('tokens', [['generated', (each) => each.rates.generated], ['of prompts', (each) => each.rates.prompt]]);
  chart('rows', [['rows', (each) => each.rates.rows]]);
  meters('queues', last.queues.map(({ name, busy, bytes: moved }) => ({ name, share: busy, words: (100 * busy).toFixed(0) + '% busy' + (moved > 0 ? ', ' + bytes(moved) + '/s' : '') })), 'no queue has done anything yet', false);
  meters('memory', [
    ...last.memory.map(({ name, used, capacity }) => ({ name: name, share: capacity > 0 ? used / capacity : 0, words: bytes(used) + ' of ' + bytes(capacity) })),
    { name: 'process, resident', words: bytes(last.residentBytes) },
  ], '', true);
  drawLanes(last.at);
  errors(bad);
  if (about) {
    pairs('facts', about.facts);
    pairs('plan', about.plan.length > 0 ? about.plan : [['', 'nothing was planned yet']]);
  }
}

function average(some) {
  const mean = (of) => some.reduce((sum, each) => sum + of(each.rates), 0) / Math.max(1, some.length);
  return { rows: mean((each) => each.rows), generated: mean((each) => each.generated), prompt: mean((each) => each.prompt) };
}

/** Names and values; what is there is changed, so that nothing loses the focus. */
function pairs(id, list, wrap) {
  const place = at(id);
  if (place.children.length !== list.length * (wrap ? 1 : 2)) place.replaceChildren(...list.flatMap(() => {
    const both = [made('dt'), made('dd')];
    if (!wrap) return both;
    const box = made(wrap);
    box.append(...both);
    return [box];
  }));
  const [names, values] = [place.querySelectorAll('dt'), place.querySelectorAll('dd')];
  list.forEach(([name, value], i) => {
    names[i].textContent = name;
    values[i].textContent = value;
  });
}

const SVG = 'http://www.w3.org/2000/svg';
function chart(id, curves) {
  const place = at(id);
  const last = samples.at(-1).at;
  const some = samples.filter((each) => each.at > last - shown * 1000);
  const most = Math.max(1e-9, ...some.flatMap((each) => curves.map(([, of]) => of(each))));
  const x = (each) => 600 - (600 * (last - each.at)) / (shown * 1000);
  const y = (value) => 156 - (150 * value) / most;
  const part = (name, cls, attributes) => {
    const element = document.createElementNS(SVG, name);
    element.setAttribute('class', cls);
    for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
    return element;
  };
  const drawn = [156, 81, 6].map((height) => part('line', 'axis', { x1: 0, x2: 600, y1: height, y2: height }));
  curves.forEach(([, of], i) => {
    const points = some.map((each) => x(each).toFixed(1) + ',' + y(of(each)).toFixed(1));
    if (points.length === 0) return;
    if (i === 0) drawn.push(part('polygon', 'area', { points: [x(some[0]).toFixed(1) + ',156', ...points, '600,156'].join(' ') }));
    drawn.push(part('polyline', i === 0 ? 'line' : 'line second', { points: points.join(' ') }));
  });
  place.replaceChildren(...drawn);
  const now = curves.map(([name, of]) => name + ' ' + figure(of(samples.at(-1))));
  place.setAttribute('aria-label', at(id + '-title').textContent + ': now ' + now.join(', ') + ', at most ' + figure(most) + ' in the last ' + (shown === 60 ? 'minute' : shown / 60 + ' minutes'));
  at(id + '-key').replaceChildren(...now.map((words, i) => {
    const span = made('span');
    span.append(made('i', '', i === 0 ? '' : 'second'), words);
    return span;
  }), made('span', 'at most ' + figure(most)));
}

function meters(id, list, none, warns) {
  const place = at(id);
  if (list.length === 0) {
    place.replaceChildren(made('li', none, 'faint'));
    return;
  }
  place.replaceChildren(...list.map(({ name, share, words }) => {
    const item = made('li', undefined, warns && share > 0.98 ? 'full' : '');
    const line = made('div', undefined, 'name');
    line.append(made('span', name), made('span', words));
    item.append(line);
    if (share !== undefined) {
      const bar = made('div', undefined, 'bar');
      bar.setAttribute('role', 'meter');
      bar.setAttribute('aria-label', name);
      bar.setAttribute('aria-valuemin', '0');
      bar.setAttribute('aria-valuemax', '100');
      bar.setAttribute('aria-valuenow', (100 * share).toFixed(0));
      bar.append(made('span'));
      bar.firstElementChild.style.width = Math.min(100, 100 * share) + '%';
      item.append(bar);
    }
    return item;
  }));
}

function drawLanes(now) {
  const queues = [...new Set(lanes.map(({ queue }) => queue))].sort();
  const place = at('lanes');
  if (place.children.length !== queues.length || queues.length === 0)
    place.replaceChildren(...(queues.length === 0 ? [made('p', 'nothing was computed or moved', 'faint')] : queues.map(() => {
      const lane = made('div', undefined, 'lane');
      lane.append(made('span'), made('canvas'));
      return lane;
    })));
  const style = getComputedStyle(document.documentElement);
  const present = new Set();
  queues.forEach((queue, i) => {
    const [label, canvas] = place.children[i].children;
    label.textContent = queue;
    const width = Math.max(1, Math.round(canvas.clientWidth * devicePixelRatio)), height = Math.max(1, Math.round(canvas.clientHeight * devicePixelRatio));
    canvas.width = width;
    canvas.height = height;
    const pen = canvas.getContext('2d');
    for (const { queue: own, name, start, end } of lanes) {
      if (own !== queue) continue;
      const kind = kindOf(name);
      present.add(name);
      const from = width * (1 - (now - start) / (LANE_SECONDS * 1000)), to = width * (1 - (now - end) / (LANE_SECONDS * 1000));
      pen.fillStyle = style.getPropertyValue('--k' + kind);
      pen.fillRect(from, 0, Math.max(0.5, to - from), height);
    }
  });
  place.setAttribute('aria-label', queues.length === 0 ? 'no queue has done anything' : 'What queues did in the last ten seconds: ' + queues.map((queue) => queue + ' ' + [...new Set(lanes.filter((each) => each.queue === queue).map(({ name }) => name))].join(', ')).join('; '));
  at('lanes-key').replaceChildren(...[...present].map((name) => {
    const span = made('span');
    span.append(made('i', '', 'c' + kindOf(name)), name);
    return span;
  }));
}

let listed;
function errors(count) {
  at('counts').textContent = count === 0 && failed.rows.length === 0 ? 'none' : whole.format(count) + ': ' + failed.counts.map(([code, each]) => whole.format(each) + ' ' + code).join(', ') + (count > failed.rows.length ? '; the last ' + failed.rows.length + ':' : '');
  if (listed === failed) return;
  listed = failed;
  const opened = new Set([...document.querySelectorAll('#failed details[open]')].map((each) => each.dataset.row));
  at('failed').replaceChildren(...failed.rows.map(({ id, code, message, at: time }) => {
    const [item, details, summary] = [made('li'), made('details'), made('summary')];
    details.dataset.row = id + ' ' + time;
    details.open = opened.has(details.dataset.row);
    summary.append(made('b', id), made('code', code), message.split('\\n', 1)[0]);
    details.append(summary, made('pre', message));
    item.append(details);
    return item;
  }));
}

at('pause').addEventListener('click', () => {
  paused = !paused;
  at('pause').setAttribute('aria-pressed', String(paused));
  at('pause').textContent = paused ? 'Go on' : 'Pause';
  if (!paused) show();
});
for (const button of document.querySelectorAll('.span'))
  button.addEventListener('click', () => {
    shown = Number(button.dataset.seconds);
    for (const each of document.querySelectorAll('.span')) each.setAttribute('aria-pressed', String(each === button));
    show();
  });
at('key').addEventListener('submit', (event) => {
  event.preventDefault();
  key = at('secret').value;
  void watch();
});
const again = () => show();
addEventListener('resize', again);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);

function gone(words) {
  if (state === 'finished' || state === 'failed' || state === 'stopped') return;
  at('state').textContent = words;
  at('state').dataset.state = 'gone';
}

let wait = 1;
async function watch() {
  try {
    const response = await fetch('events', { headers: key === '' ? {} : { authorization: 'Bearer ' + key }, cache: 'no-store' });
    if (response.status === 401) {
      at('key').hidden = false;
      at('main').hidden = true;
      at('state').textContent = 'locked';
      at('refused').textContent = key === '' ? '' : 'It is not that one.';
      at('secret').focus();
      return;
    }
    if (!response.ok) throw new Error(response.status);
    [samples, lanes, wait] = [[], [], 1];
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ''; ;) {
      const { done, value } = await reader.read();
      if (done) break;
      rest += value;
      for (let end = rest.indexOf('\\n\\n'); end >= 0; end = rest.indexOf('\\n\\n')) {
        const text = rest.slice(0, end);
        rest = rest.slice(end + 2);
        if (text.startsWith('data: ')) take(JSON.parse(text.slice(6)));
      }
    }
  } catch {
    // Told below.
  }
  if (state === 'finished' || state === 'failed' || state === 'stopped') return;
  gone('connection lost');
  setTimeout(watch, 1000 * wait);
  wait = Math.min(30, 2 * wait);
}
void watch();
`;
