import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { WebSocket } from 'undici';

const NAMES = [
  'chromium-headless-shell',
  'chrome-headless-shell',
  'chromium',
  'chromium-browser',
  'google-chrome',
  'google-chrome-stable',
];

/** A browser of this machine that is driven without a screen: Chromium, of whichever name. */
export function findBrowser(): string | undefined {
  const given = process.env['SPILLWAY_BROWSER'];
  if (given !== undefined && given !== '') return given;
  return NAMES.find((name) => spawnSync(name, ['--version'], { stdio: 'ignore' }).status === 0);
}

export interface PageView {
  readonly width: number;
  readonly height: number;
  readonly dark?: boolean;
}

/** One page of a browser, over Chrome's DevTools protocol. */
export class Browser {
  readonly #waiting = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  #last = 0;
  /** What the page said in its console, and what it could not do. */
  readonly said: string[] = [];
  /** Addresses that it asked for. */
  readonly asked: string[] = [];

  private constructor(
    private readonly child: ChildProcess,
    private readonly folder: string,
    private readonly socket: WebSocket,
  ) {
    socket.addEventListener('message', ({ data }) => {
      const { id, result, error, method, params } = JSON.parse(String(data)) as {
        id?: number;
        result: never;
        error?: { message: string };
        method?: string;
        params?: Record<string, never>;
      };
      if (id === undefined) {
        if (
          method === 'Runtime.exceptionThrown' ||
          method === 'Runtime.consoleAPICalled' ||
          method === 'Log.entryAdded'
        )
          this.said.push(JSON.stringify(params));
        if (method === 'Network.requestWillBeSent')
          this.asked.push((params as unknown as { request: { url: string } }).request.url);
        return;
      }
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (error) waiting?.reject(new Error(error.message));
      else waiting?.resolve(result);
    });
  }

  static async open(path: string): Promise<Browser> {
    const folder = mkdtempSync(join(tmpdir(), 'spillway-browser-'));
    const child = spawn(
      path,
      [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-dev-shm-usage',
        '--hide-scrollbars',
        '--remote-debugging-port=0',
        `--user-data-dir=${folder}`,
        'about:blank',
      ],
      { stdio: ['ignore', 'ignore', 'pipe'], detached: true },
    );
    const at = await new Promise<string>((resolve, reject) => {
      let said = '';
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        said = (said + text).slice(-10_000);
        const [, address] = /DevTools listening on (ws:\/\/\S+)/.exec(said) ?? [];
        if (address !== undefined) resolve(address);
      });
      child.once('error', reject);
      child.once('exit', (code) => {
        reject(new Error(`the browser ended with ${code}: ${said}`));
      });
    });
    const targets = (await (await fetch(`http://${new URL(at).host}/json/list`)).json()) as {
      type: string;
      webSocketDebuggerUrl: string;
    }[];
    const page = targets.find(({ type }) => type === 'page');
    const socket = new WebSocket(page?.webSocketDebuggerUrl ?? '');
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', reject);
    });
    const browser = new Browser(child, folder, socket);
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await browser.#send(`${domain}.enable`);
    return browser;
  }

  async goTo(url: string): Promise<void> {
    await this.#send('Page.navigate', { url });
    await this.until(`document.readyState === 'complete' && location.href.startsWith(${JSON.stringify(url)})`);
  }

  async view({ width, height, dark = false }: PageView): Promise<void> {
    await this.#send('Emulation.setDeviceMetricsOverride', {
      width,
      height,
      deviceScaleFactor: 1,
      mobile: width < 500,
    });
    await this.#send('Emulation.setEmulatedMedia', {
      features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }],
    });
  }

  /** The value of an expression in the page. */
  async value<Value>(expression: string): Promise<Value> {
    const { result, exceptionDetails } = await this.#send<{
      result: { value: Value };
      exceptionDetails?: { text: string; exception?: { description?: string } };
    }>('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  }

  async until(expression: string): Promise<void> {
    for (let tries = 0; !(await this.value<boolean>(expression)); tries++) {
      if (tries > 6000) throw new Error(`it did not come: ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** Clicks where an element is, as a hand does. */
  async click(selector: string): Promise<void> {
    const [x, y] = await this.value<[number, number]>(`(() => {
      const element = document.querySelector(${JSON.stringify(selector)});
      element.scrollIntoView({ block: 'center' });
      const { left, top, width, height } = element.getBoundingClientRect();
      return [left + width / 2, top + height / 2];
    })()`);
    for (const type of ['mousePressed', 'mouseReleased'])
      await this.#send('Input.dispatchMouseEvent', { type, x, y, button: 'left', clickCount: 1 });
  }

  async type(text: string): Promise<void> {
    await this.#send('Input.insertText', { text });
  }

  async press(key: 'Enter' | 'Tab'): Promise<void> {
    const code = key === 'Enter' ? 13 : 9;
    const text = key === 'Enter' ? '\r' : undefined;
    for (const type of ['keyDown', 'keyUp'])
      await this.#send('Input.dispatchKeyEvent', { type, key, code: key, windowsVirtualKeyCode: code, text });
  }

  /** The whole page as a PNG. */
  async screenshot(): Promise<Buffer> {
    const { data } = await this.#send<{ data: string }>('Page.captureScreenshot', {
      format: 'png',
      captureBeyondViewport: true,
    });
    return Buffer.from(data, 'base64');
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.child.once('exit', resolve));
    const closed = new Promise((resolve) => this.socket.addEventListener('close', resolve));
    // Its own processes, too, which would hold its streams.
    if (this.child.pid !== undefined) process.kill(-this.child.pid, 'SIGKILL');
    await Promise.all([ended, closed]);
    this.child.stderr?.destroy();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }

  #send<Result = object>(method: string, params: object = {}): Promise<Result> {
    const id = ++this.#last;
    return new Promise<Result>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.socket.send(JSON.stringify({ id, method, params }));
    });
  }
}
