/** The page on narrow screens as on wide ones, by day and by night. */
export const WATCH_STYLE = `
:root{color-scheme:light dark;--ink:#1c1e21;--faint:#5c636b;--paper:#fff;--card:#f6f7f8;--line:#d5d9dd;--good:#1a7f37;--bad:#b3261e;--one:#1668b3;--two:#b45309;--track:#e3e6e9;
--k0:#1668b3;--k1:#b45309;--k2:#7c3aed;--k3:#0f766e;--k4:#be185d;--k5:#4d7c0f;--k6:#475569;--k7:#a16207}
@media (prefers-color-scheme:dark){:root{--ink:#e8eaed;--faint:#a2a9b1;--paper:#14171a;--card:#1d2125;--line:#3a4047;--good:#5fd47f;--bad:#ff9a8f;--one:#6db3f2;--two:#f0a95c;--track:#31363c;
--k0:#6db3f2;--k1:#f0a95c;--k2:#b79bff;--k3:#5ed3c4;--k4:#f78fc0;--k5:#a9d65c;--k6:#aab6c6;--k7:#e3c55b}}
*{box-sizing:border-box}
body{font:15px/1.45 system-ui,sans-serif;margin:0 auto;max-width:76rem;padding:1.2rem 1rem 3rem;color:var(--ink);background:var(--paper)}
[hidden]{display:none!important}
header{display:flex;flex-wrap:wrap;align-items:baseline;gap:.3rem .8rem;margin-bottom:.8rem}
h1{font-size:1.35rem;line-height:1.25;margin:0;overflow-wrap:anywhere}
h2{font-size:1rem;margin:0 0 .5rem}
p{margin:0;overflow-wrap:anywhere}
.faint,.key{color:var(--faint)}
.bad{color:var(--bad);overflow-wrap:anywhere}
.state{font-weight:600;font-size:.85rem;padding:.1rem .6rem;border:1px solid currentColor;border-radius:1rem;color:var(--faint)}
.state[data-state=running]{color:var(--one)}
.state[data-state=finished]{color:var(--good)}
.state[data-state=failed],.state[data-state=gone]{color:var(--bad)}
#reason{border-left:4px solid currentColor;padding:.4rem .8rem;background:var(--card);margin-bottom:.8rem;white-space:pre-wrap}
.bar{height:.6rem;border-radius:.3rem;background:var(--track);overflow:hidden;margin-bottom:.8rem}
.bar>span{display:block;height:100%;background:var(--one);border-radius:inherit}
[data-is=finished] #progress>span{background:var(--good)}
[data-is=failed] #progress>span{background:var(--bad)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));gap:.6rem;margin:0 0 1rem}
.tiles>div{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.5rem .7rem;min-width:0}
.tiles dt{color:var(--faint);font-size:.8rem}
.tiles dd{margin:0;font-size:1.3rem;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}
.tools{display:flex;flex-wrap:wrap;gap:.5rem 1rem;margin-bottom:1rem}
button{font:inherit;color:inherit;background:var(--card);border:1px solid var(--line);border-radius:.4rem;padding:.3rem .8rem;cursor:pointer}
button[aria-pressed=true]{background:var(--one);border-color:var(--one);color:var(--paper)}
:focus-visible{outline:2px solid var(--one);outline-offset:2px}
.columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:1rem;align-items:start}
section{background:var(--card);border:1px solid var(--line);border-radius:.5rem;padding:.8rem;margin-bottom:1rem;min-width:0}
.columns>section{margin:0 0 0;height:100%}
.columns{margin-bottom:1rem}
svg{display:block;width:100%;height:9rem;overflow:visible}
.axis{stroke:var(--line);stroke-width:1;vector-effect:non-scaling-stroke}
.line{fill:none;stroke:var(--one);stroke-width:2;vector-effect:non-scaling-stroke;stroke-linejoin:round}
.area{fill:var(--one);opacity:.13}
.line.second{stroke:var(--two);stroke-dasharray:5 3}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.85rem;margin-top:.5rem;font-variant-numeric:tabular-nums}
.key i{display:inline-block;width:.8em;height:.8em;border-radius:.15em;margin-right:.35em;background:var(--one)}
.key i.second{background:var(--two)}
.meters{list-style:none;margin:0;padding:0;display:grid;gap:.6rem}
.meters .bar{margin:.2rem 0 0}
.meters .name{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 1rem;font-variant-numeric:tabular-nums}
.meters .name span:last-child{color:var(--faint)}
.meters .full>.bar>span{background:var(--bad)}
.lane{display:grid;grid-template-columns:8.5rem 1fr;align-items:center;gap:.6rem;margin-bottom:.3rem;font-size:.85rem}
.lane canvas{display:block;width:100%;height:1.4rem;background:var(--track);border-radius:.2rem}
.lane span{overflow-wrap:anywhere}
.failed{margin:.5rem 0 0;padding:0;list-style:none}
.failed li{border-top:1px solid var(--line)}
.failed summary{padding:.35rem 0;cursor:pointer;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.failed summary b{margin-right:.6em}
.failed summary code{color:var(--bad);margin-right:.6em}
.failed pre{margin:0 0 .6rem;white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.45 ui-monospace,monospace}
summary h2{display:inline;margin:0}
.facts{display:grid;grid-template-columns:fit-content(40%) 1fr;gap:.2rem 1rem;margin:.6rem 0 0}
.facts dt{color:var(--faint);overflow-wrap:anywhere;min-width:0}
.facts dd{margin:0;overflow-wrap:anywhere}
#key{display:flex;flex-wrap:wrap;gap:.6rem;align-items:center}
input{font:inherit;padding:.3rem .5rem;border:1px solid var(--line);border-radius:.4rem;background:var(--paper);color:inherit;max-width:100%}
.c0{background:var(--k0)!important}.c1{background:var(--k1)!important}.c2{background:var(--k2)!important}.c3{background:var(--k3)!important}.c4{background:var(--k4)!important}.c5{background:var(--k5)!important}.c6{background:var(--k6)!important}.c7{background:var(--k7)!important}
@media (max-width:34rem){body{padding:.8rem .6rem 2rem}.tiles{grid-template-columns:1fr 1fr}.lane{grid-template-columns:1fr;gap:.1rem}.facts{grid-template-columns:1fr;gap:0}.facts dd{margin-bottom:.4rem}}`;
