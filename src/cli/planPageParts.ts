/** What the page of a plan looks like: on narrow screens as on wide ones, by day and by night. */
export const PLAN_STYLE = `
:root{color-scheme:light dark;--ink:#1b1b1b;--paper:#fff;--faint:#f4f4f4;--line:#ccc;--one:#1668b3;--two:#c0392b}
@media (prefers-color-scheme:dark){:root{--ink:#e6e6e6;--paper:#16181b;--faint:#22262b;--line:#454b53;--one:#6db3f2;--two:#ff8a7a}}
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:var(--ink);background:var(--paper);overflow-wrap:anywhere}
main{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,30rem),1fr));gap:1.5rem}
main>div{min-width:0}
.wide{overflow-x:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
pre{background:var(--faint);padding:1rem;overflow:auto}
.u-title{font-size:1rem}`;

/** Draws `charts`, and draws them again where the width or the light changes. */
export const PLAN_SCRIPT = `
const place = document.getElementById('charts');
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });
const words = (u, values) => values.map((value) => (value === null ? '' : short.format(value)));
function draw() {
  place.textContent = '';
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const [ink, line, colours] = [colour('--ink'), colour('--line'), [colour('--one'), colour('--two')]];
  const axis = (label, size) => ({ label, stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, values: words, ...(size && { size }) });
  for (const { title, x, y, log, data, labels } of charts) {
    const box = place.appendChild(document.createElement('div'));
    const several = labels.length > 1;
    new uPlot({
      title, width: box.clientWidth, height: 320,
      scales: { x: { time: false, distr: log ? 3 : 1 }, y: { distr: log && several ? 3 : 1, ...(several ? {} : { range: (u, low, high) => [0, high * 1.1 || 1] }) } },
      axes: [axis(x), axis(y, 64)],
      series: [{ label: x }, ...labels.map((label, i) => ({ label, stroke: colours[i], width: 2, points: { show: true, stroke: colours[i], fill: colours[i] } }))],
    }, data, box);
  }
}
draw();
let waiting;
const again = () => { clearTimeout(waiting); waiting = setTimeout(draw, 100); };
let width = innerWidth;
addEventListener('resize', () => { if (innerWidth !== width) { width = innerWidth; again(); } });
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
`;
