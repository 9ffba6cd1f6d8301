import { createHash } from 'node:crypto';
import { WATCH_SCRIPT } from './watchScript.js';
import { WATCH_STYLE } from './watchStyle.js';

const BODY = `
<header>
  <h1 id="title">Spillway</h1>
  <p id="state" class="state" role="status" data-state="connecting">connecting</p>
  <p id="time" class="faint"></p>
</header>
<form id="key" hidden>
  <label for="secret">This server needs its API key</label>
  <input id="secret" type="password" autocomplete="off" required>
  <button>Watch</button>
  <p id="refused" class="bad" role="alert"></p>
</form>
<main id="main" hidden>
  <p id="reason" class="bad" role="alert" hidden></p>
  <div id="progress" class="bar" role="progressbar" aria-label="Rows done" aria-valuemin="0" aria-valuemax="100" hidden><span></span></div>
  <dl id="tiles" class="tiles"></dl>
  <div class="tools">
    <button id="pause" type="button" aria-pressed="false">Pause</button>
    <span role="group" aria-label="Shown time">
      <button class="span" type="button" data-seconds="60" aria-pressed="true">1 minute</button>
      <button class="span" type="button" data-seconds="300" aria-pressed="false">5 minutes</button>
    </span>
  </div>
  <div class="columns">
    <section aria-labelledby="tokens-title"><h2 id="tokens-title">Tokens a second</h2><svg id="tokens" role="img" viewBox="0 0 600 160" preserveAspectRatio="none"></svg><p id="tokens-key" class="key"></p></section>
    <section aria-labelledby="rows-title"><h2 id="rows-title">Rows a second</h2><svg id="rows" role="img" viewBox="0 0 600 160" preserveAspectRatio="none"></svg><p id="rows-key" class="key"></p></section>
    <section aria-labelledby="queues-title"><h2 id="queues-title">Queues</h2><ul id="queues" class="meters"></ul></section>
    <section aria-labelledby="memory-title"><h2 id="memory-title">Memory</h2><ul id="memory" class="meters"></ul></section>
  </div>
  <section aria-labelledby="lanes-title"><h2 id="lanes-title">The last ten seconds</h2><div id="lanes" role="img"></div><p id="lanes-key" class="key"></p></section>
  <section aria-labelledby="failed-title"><h2 id="failed-title">Rows with an error</h2><p id="counts"></p><ol id="failed" class="failed"></ol></section>
  <div class="columns">
    <section aria-labelledby="plan-title"><details id="plan-details"><summary><h2 id="plan-title">The plan</h2></summary><dl id="plan" class="facts"></dl></details></section>
    <section aria-labelledby="facts-title"><details id="facts-details" open><summary><h2 id="facts-title">About</h2></summary><dl id="facts" class="facts"></dl></details></section>
  </div>
</main>
<noscript>This page needs JavaScript; the same figures are at <a href="metrics">/metrics</a>.</noscript>`;

/** The page as one file, and the policy that lets nothing but its own style and script into it. */
export function watchPage(): { readonly html: string; readonly policy: string } {
  const html = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><title>Spillway</title>
<style>${WATCH_STYLE}</style></head><body>${BODY}
<script>${WATCH_SCRIPT}</script></body></html>
`;
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(WATCH_SCRIPT)}`,
    `style-src ${hashOf(WATCH_STYLE)}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ');
  return { html, policy };
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
