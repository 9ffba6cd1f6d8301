import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { JobWatch, type JobWatchOptions } from '../../../src/serve/watch/JobWatch.js';
import { Browser, findBrowser, type PageView } from '../../support/Browser.js';
import { watchedEngine } from '../support/watchedEngine.js';
import { stubServer } from '../support/served.js';

const HOSTILE = [
  '<img src=x onerror="window.harmed=1">',
  '"><script>window.harmed=1</script>',
  "');window.harmed=1;//",
  '\u202e\u0000</pre></details><svg onload=window.harmed=1>',
  'x'.repeat(5000),
];
const SIZES: readonly (readonly [name: string, view: PageView])[] = [
  ['light', { width: 1200, height: 900 }],
  ['dark', { width: 1200, height: 900, dark: true }],
  ['narrow', { width: 400, height: 850 }],
  ['narrow dark', { width: 400, height: 850, dark: true }],
];

const path = findBrowser();
const missing = path === undefined ? ' (skipped: no Chromium is there; SPILLWAY_BROWSER names one)' : '';
/** Where pictures go, for people to look at. */
const pictures = process.env['SPILLWAY_SCREENSHOTS'];

(path === undefined ? describe.skip : describe)(`the page in a browser${missing}`, () => {
  let browser: Browser;
  const open: JobWatch[] = [];
  beforeAll(async () => {
    browser = await Browser.open(path ?? '');
  });
  afterEach(async () => {
    await Promise.all(open.splice(0).map((watch) => watch.close('stopped')));
  });
  afterAll(async () => {
    await browser.close();
  });

  async function watchJob(options: Partial<JobWatchOptions> = {}): Promise<JobWatch> {
    const watch = await JobWatch.open({
      title: 'spillway generate',
      facts: [
        ['Model', 'smollm2-135m-instruct'],
        ['Input', '/data/tickets.jsonl'],
        ['Output', '/data/answers.jsonl'],
      ],
      port: 0,
      ...options,
    });
    open.push(watch);
    return watch;
  }

  /** Three hundred of a thousand rows, with errors among them. */
  function work(watch: JobWatch, messages: readonly string[] = []): void {
    watch.opened(watchedEngine());
    watch.expects(1000, 100);
    watch.active(64);
    for (let at = 0; at < 300; at++)
      watch.answered({ id: `ticket-${at}`, usage: { promptTokens: 90, completionTokens: 20 } });
    for (const [at, message] of [
      'the row has 9000 tokens, and the model takes 8192',
      'no JSON: found "}" at 12',
    ].entries())
      watch.answered({ id: `ticket-${300 + at}`, error: { code: at === 0 ? 'length' : 'json', message } });
    for (const message of messages) watch.answered({ id: message, error: { code: message, message } });
  }

  const text = (selector: string): Promise<string> =>
    browser.value(`document.querySelector(${JSON.stringify(selector)}).textContent`);
  const state = (now: string): Promise<void> =>
    browser.until(`document.getElementById('state').textContent === '${now}'`);

  async function picture(name: string): Promise<void> {
    for (const [size, view] of SIZES) {
      await browser.view(view);
      // Nothing is wider than the screen.
      expect(await browser.value('document.documentElement.scrollWidth')).toBeLessThanOrEqual(view.width);
      if (pictures === undefined) continue;
      mkdirSync(pictures, { recursive: true });
      writeFileSync(join(pictures, `${name} ${size}.png`), await browser.screenshot());
    }
    await browser.view({ width: 1200, height: 900 });
  }

  test('shows a job that runs: figures, queues, memory, lanes, errors, the plan', async () => {
    const watch = await watchJob();
    work(watch);
    await browser.goTo(watch.url);
    await state('running');
    await browser.until(`document.querySelectorAll('#lanes canvas').length === 3`);
    await browser.until(`Number(document.querySelector('#queues [role=meter]').getAttribute('aria-valuenow')) > 50`);
    expect(await text('#tiles')).toContain('402 of 1,000');
    expect(await text('#time')).toMatch(/^0:\d\d, about \d+:\d\d left$/);
    expect(await browser.value(`document.getElementById('progress').getAttribute('aria-valuenow')`)).toBe('40');
    await browser.until(
      String.raw`/cpu-compute8\d% busy.*disk-read4\d% busy, 2\.\d GiB\/s/.test(document.getElementById('queues').textContent)`,
    );
    expect(await text('#memory')).toContain('12.4 GiB of 16.0 GiB');
    expect(await text('#counts')).toBe('2: 1 length, 1 json');
    await browser.until(
      String.raw`/^Tokens a second: now generated 1\d\d, of prompts \d+/.test(document.getElementById('tokens').getAttribute('aria-label'))`,
    );
    // Something is drawn in each lane.
    expect(
      await browser.value(`[...document.querySelectorAll('#lanes canvas')].every((canvas) => {
        const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        return data.some((byte) => byte > 0);
      })`),
    ).toBe(true);
    await picture('running');

    // A row's message is shown whole by a click, and stays so while other rows fail.
    await browser.click('#failed li:first-child summary');
    expect(await browser.value(`document.querySelector('#failed details').open`)).toBe(true);
    watch.answered({ id: 'later', error: { code: 'json', message: 'once more' } });
    await browser.until(`document.querySelectorAll('#failed li').length === 3`);
    expect(await browser.value(`document.querySelectorAll('#failed details')[1].open`)).toBe(true);
    await browser.click('#plan-title');
    expect(await browser.value(`document.getElementById('plan-details').open`)).toBe(true);
    expect(await text('#plan')).toContain('60% CPU, 40% disk');
    await browser.click('[data-seconds="300"]');
    expect(await browser.value(`document.querySelector('[data-seconds="300"]').getAttribute('aria-pressed')`)).toBe(
      'true',
    );
    await browser.until(`document.getElementById('rows').getAttribute('aria-label').includes('5 minutes')`);

    // While it is paused nothing changes; then all is there.
    await browser.click('#pause');
    const before = await text('#tiles');
    watch.answered({ id: 'done', usage: {} });
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(await text('#tiles')).toBe(before);
    await browser.click('#pause');
    await browser.until(`document.getElementById('tiles').textContent.includes('404 of')`);
    expect(browser.said).toEqual([]);
    // Nothing is fetched but the page and what it is told.
    expect(new Set(browser.asked.filter((url) => url.startsWith('http')))).toEqual(
      new Set([watch.url, `${watch.url}events`]),
    );
  });

  test('tells how a job ended', async () => {
    const finished = await watchJob();
    work(finished);
    await browser.goTo(finished.url);
    await state('running');
    for (let at = 0; at < 598; at++) finished.answered({ id: at, usage: { promptTokens: 9, completionTokens: 9 } });
    await finished.close('finished');
    await state('finished');
    expect(await text('#tiles')).toContain('1,000 of 1,000');
    expect(await text('#time')).not.toContain('left');
    await picture('finished');

    const failed = await watchJob();
    work(failed);
    await browser.goTo(failed.url);
    await state('running');
    await failed.close('failed', 'answers.jsonl: cannot be written: no space is left on the disk');
    await state('failed');
    expect(await text('#reason')).toContain('no space is left');
    await picture('failed');
    // What is gone does not come back, and the page knows that it is over.
    await new Promise((resolve) => setTimeout(resolve, 1500));
    expect(await text('#state')).toBe('failed');
  });

  test('takes what rows say for text, whatever it is', async () => {
    const watch = await watchJob({ title: HOSTILE[0] ?? '', facts: [[HOSTILE[1] ?? '', HOSTILE[0] ?? '']] });
    work(watch, HOSTILE);
    await browser.goTo(watch.url);
    await state('running');
    await browser.until(`document.querySelectorAll('#failed li').length === ${HOSTILE.length + 2}`);
    for (const details of ['#failed li:nth-child(5)', '#failed li:nth-child(2)'])
      await browser.click(`${details} summary`);
    expect(await text('#failed')).toContain('<img src=x onerror="window.harmed=1">');
    expect(await browser.value('typeof window.harmed')).toBe('undefined');
    expect(
      await browser.value(`document.querySelectorAll('#failed img, #failed script, #failed svg, h1 img').length`),
    ).toBe(0);
    expect(
      await browser.value(
        `Math.max(...[...document.querySelectorAll('#failed pre')].map((each) => each.textContent.length))`,
      ),
    ).toBeLessThan(500);
    await browser.view({ width: 400, height: 800 });
    expect(await browser.value('document.documentElement.scrollWidth')).toBeLessThanOrEqual(400);
    await browser.view({ width: 1200, height: 900 });
  });

  test('says that the process is gone, and finds the next one at the same place', async () => {
    const server = await stubServer();
    const { port } = new URL(server.url);
    await browser.goTo(`${server.url}/`);
    await state('running');
    expect(await text('#title')).toBe('spillway serve: stub');
    await server.close();
    await state('stopped');
    const watch = await watchJob({ port: Number(port) });
    await browser.goTo(watch.url);
    await state('running');
  });

  test('asks for a key where one is needed', async () => {
    const watch = await watchJob({ apiKey: 'correct-horse' });
    work(watch);
    await browser.goTo(watch.url);
    await state('locked');
    await browser.type('wrong-horse');
    await browser.press('Enter');
    await browser.until(`document.getElementById('refused').textContent !== ''`);
    await browser.value(`document.getElementById('secret').value = ''`);
    await browser.type('correct-horse');
    await browser.press('Enter');
    await state('running');
    await browser.until(`document.getElementById('tiles').textContent.includes('402 of 1,000')`);
  });
});
