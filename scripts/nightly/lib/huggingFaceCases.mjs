// Cases of @huggingface/jinja's tests out of their sources: what stands before the first `describe` are constants.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createContext, runInContext } from 'node:vm';

/** The constants of a test file, evaluated by themselves. */
function constantsOf(file, names) {
  const source = readFileSync(file, 'utf8');
  const own = source.slice(0, source.indexOf('\ndescribe(')).replaceAll(/^import .*$/gm, '');
  return runInContext(`${own}\n;({ ${names.join(', ')} })`, createContext({}), { timeout: 10_000 });
}

/** Whether a value is plain data: tests give functions to some templates, which rows cannot. */
function isData(value) {
  if (typeof value === 'function' || value === undefined) return false;
  return typeof value !== 'object' || value === null || Object.values(value).every(isData);
}

/** Of its tests with templates of models: by group, by name, each with `chat_template`, `data` and `target`. */
function casesOfModels(folder) {
  return constantsOf(join(folder, 'e2e.test.js'), ['TEST_DEFAULT_TEMPLATES', 'TEST_CUSTOM_TEMPLATES']);
}

/** @param folder its tests @returns names and templates of models, each template once */
export function huggingFaceTemplates(folder) {
  const named = Object.values(casesOfModels(folder)).flatMap((group) => Object.entries(group));
  return [...new Map(named.map(([name, { chat_template: template }]) => [template, name]))].map(([source, name]) => ({
    name,
    source,
  }));
}

/** @param folder its tests @returns cases as `cppCases` does */
export function huggingFaceCases(folder) {
  const { TEST_STRINGS, TEST_CONTEXT, EXPECTED_OUTPUTS } = constantsOf(join(folder, 'templates.test.js'), [
    'TEST_STRINGS',
    'TEST_CONTEXT',
    'EXPECTED_OUTPUTS',
  ]);
  const single = Object.entries(TEST_STRINGS).map(([name, template]) => [
    name,
    { chat_template: template, data: TEST_CONTEXT[name] ?? {}, target: EXPECTED_OUTPUTS[name] },
  ]);
  const whole = Object.values(casesOfModels(folder)).flatMap((group) => Object.entries(group));
  return [...single, ...whole].map(([name, { chat_template: template, data, target }]) =>
    isData(data)
      ? { name, template, variables: JSON.stringify(data), expected: target }
      : { name, needsFunctions: true },
  );
}
