/** The style of the page of a plan: on narrow screens as on wide ones, by day and by night. */
export const PLAN_STYLE = `
:root{color-scheme:light dark;--ink:#1b1b1b;--paper:#fff;--faint:#f4f4f4;--line:#ccc;--one:#1668b3;--two:#c0392b}
@media (prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#16181b;--faint:#22262b;--line:#454b53;--one:#6db3f2;--two:#ff8a7a}}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:var(--ink);background:var(--paper)}
h1,p,summary{overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25}
h2{font-size:1.2rem;margin:1.5rem 0 .3rem}
main{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1.5rem;margin-top:1.5rem}
main>div{min-width:0}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.2rem 1.2rem .2rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
details{margin-top:1.5rem}
pre{background:var(--faint);padding:1rem;overflow:auto}
.u-title{font-size:1rem}
@media (max-width:40rem){body{margin-top:1rem}td,th{font-size:.85rem;padding-right:.7rem}}`;

/** Draws `charts`, and draws them again where the width or the light changes. */
export const PLAN_SCRIPT = `
const place = document.getElementById('charts');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });
const words = (u, values) => values.map((value) => (value === null ? '' : short.format(value)));
// Beside the outermost points: as much as a point is wide. A scale of its own would go on to the next power of ten.
const around = (u, low, high) => [low / 1.1, high * 1.1];
const fromZero = (u, low, high) => [0, high * 1.1 || 1];
function draw() {
  place.textContent = '';
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const [ink, line, colours] = [colour('--ink'), colour('--line'), [colour('--one'), colour('--two')]];
  const axis = (label, size) => ({ label, stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, values: words, ...(size && { size }) });
  // All boxes first: how wide one is depends on how many there are.
  const boxes = charts.map(({ title }) => {
    const box = place.appendChild(document.createElement('div'));
    box.setAttribute('role', 'img');
    box.setAttribute('aria-label', title);
    return box;
  });
  charts.forEach(({ title, x, y, log, logY, data, labels }, i) => {
    new uPlot({
      title, width: boxes[i].clientWidth, height: 320,
      scales: { x: { time: false, ...(log && { distr: 3, range: around }) }, y: logY ? { distr: 3 } : { range: fromZero } },
      axes: [axis(x), axis(y, 64)],
      series: [{ label: x }, ...labels.map((label, i) => ({ label, stroke: colours[i], width: 2, spanGaps: true, points: { show: true, stroke: colours[i], fill: colours[i] } }))],
    }, data, boxes[i]);
  });
}
draw();
let waiting;
const again = () => { clearTimeout(waiting); waiting = setTimeout(draw, 100); };
let width = innerWidth;
addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; again(); } });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
`;
