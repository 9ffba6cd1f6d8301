import { readFileSync } from 'node:fs';
import { expect, test } from '@jest/globals';
import { Registry } from '../../src/metrics/Registry.js';
import { checkServeOptions, SERVE_LIMITS } from '../../src/serve/ServeOptions.js';

test.each(Object.entries(SERVE_LIMITS))('SECURITY.md says what %s is', (name, { fallback, about }) => {
  expect(readFileSync('SECURITY.md', 'utf8')).toContain(
    `| \`${name}\` | ${fallback.toLocaleString('en')} | ${about}. |`,
  );
});

test.each([
  [{ models: [] }, /models: found .*, expected an array of one model or more/],
  [{ data: undefined }, /data: found undefined, expected the path of a folder/],
  [{ port: 70_000 }, /port: found 70000/],
  [{ bodyBytes: 5 }, /bodyBytes: found 5/],
  [{ apiKey: 'short' }, /apiKey: found a text of 5 characters/],
  [{ bodyByte: 5000 }, /bodyBytes/],
  [{ allowedHosts: 'box.example' }, /allowedHosts: found "box.example", expected names/],
  [{ allowedHosts: ['box.example:8080'] }, /allowedHosts: found "box.example:8080", expected names .* without a port/],
  [{ allowedHosts: ['https://box.example'] }, /allowedHosts: found "https:\/\/box.example", expected names/],
  [{ allowedOrigins: ['*'] }, /allowedOrigins: found "\*", expected origins such as https:\/\/app.example/],
  [{ allowedOrigins: ['app.example'] }, /allowedOrigins: found "app.example", expected origins/],
  [{ allowedOrigins: ['https://app.example/page'] }, /allowedOrigins: found "https:\/\/app.example\/page"/],
])('options %j are refused', (more, message) => {
  const model = { name: 'a', open: () => Promise.reject(new Error()) };
  expect(() => {
    checkServeOptions({ models: [model], data: 'x', ...more });
  }).toThrow(message);
});

test('names and pages that can be heard of are taken', () => {
  checkServeOptions({
    models: [{ name: 'a', open: () => Promise.reject(new Error()) }],
    data: 'x',
    allowedHosts: ['box', 'box_1.example', '10.0.0.1', '::1'],
    allowedOrigins: ['https://app.example', 'http://localhost:3000/', 'chrome-extension://abc', 'null'],
  });
});

test('figures are written as Prometheus reads them', () => {
  const registry = new Registry();
  registry.counter('a_total', 'Of\n"a"').add(2, { of: 'x"\\\n' });
  registry.gauge('b', 'Of b.', () => 1.5);
  const seconds = registry.histogram('c_seconds', 'Of c.', [1, 2]);
  for (const value of [0.5, 1, 5]) seconds.observe(value);
  expect(registry.text()).toBe(
    [
      '# HELP a_total Of\\n"a"',
      '# TYPE a_total counter',
      'a_total{of="x\\"\\\\\\n"} 2',
      '# HELP b Of b.',
      '# TYPE b gauge',
      'b 1.5',
      '# HELP c_seconds Of c.',
      '# TYPE c_seconds histogram',
      'c_seconds_bucket{le="1"} 2',
      'c_seconds_bucket{le="2"} 2',
      'c_seconds_bucket{le="+Inf"} 3',
      'c_seconds_sum 6.5',
      'c_seconds_count 3',
      '',
    ].join('\n'),
  );
});
