// Writes a new part and its test, which compile, and fail by what is still to do:
//   npm run new -- operator|family|kernel|format NAME
// The guides under docs/guides say which other files the part touches.
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';

const ROOT = fileURLToPath(new URL('..', import.meta.url));

/** Files of a part, by their paths. */
const KINDS = {
  operator: (name) => ({
    [`src/operators/${name}.ts`]: `import type { StageContext } from '../engine/execution/Run.js';
import { stage, type Stage } from './stageInternals.js';

/** To do: says what the stage issues for a square, and what that waits for. */
export function ${name}(run: StageContext): Stage {
  return stage(() => (square) => {
    const { compute } = square.events;
    // To do: what it moves, and the events that later stages wait for.
    run.issueMoves(square, 'store_activation', run.movement.storeActivation(square), compute ? [compute] : []);
  });
}
`,
    [`test/operators/${name}.test.ts`]: `import { expect, test } from '@jest/globals';
import { from } from 'rxjs';
import { ${name} } from '../../src/operators/${name}.js';
import { describeStage, SPREAD, square, stageBench } from './support.js';

describeStage('${name}', (run) => ${name}(run));

test('${name} issues its tasks, after what they wait for', () => {
  const bench = stageBench(SPREAD);
  from([square(0, 1)])
    .pipe(${name}(bench))
    .subscribe();
  expect(bench.issued).toEqual([{ task: 'to do', after: ['to do'] }]);
});
`,
  }),
  family: (name) => ({
    [`src/model/architectures/families/${name}.ts`]: `import { gatedFamily } from '../gatedFamily.js';
import { LLAMA_DEFAULTS } from './llama.js';

/** To do: says how it differs from LLaMA. */
export const ${name} = gatedFamily({
  family: '${snake(name)}',
  // To do: where those of its configuration's class are others.
  defaults: { ...LLAMA_DEFAULTS },
});
`,
    [`test/model/architectures/${name}.test.ts`]: `import { expect, test } from '@jest/globals';
import { ${name} } from '../../../src/model/architectures/families/${name}.js';
import { Fields } from '../../../src/model/architectures/Fields.js';

const describe = (config: object): object =>
  ${name}.fromConfig(Fields.ofObject('config.json', { model_type: '${snake(name)}', ...config }));

test('${name} reads what its configuration says', () => {
  expect(describe({ num_hidden_layers: 3 })).toMatchObject({ decoder: { layers: 3 } });
});

test('${name} is told apart from LLaMA', () => {
  expect(describe({})).toMatchObject({ decoder: { family: 'to do: what sets it apart' } });
});
`,
  }),
  kernel: (name) => ({
    [`native/kernels/cpu/${name}.h`]: `// To do: says what it computes, and in which order it sums. A source that begins with simd.h, in namespace
// spillway::SPILLWAY_ISA, is compiled for each instruction set.
#pragma once
#include <cstddef>

namespace spillway {

// To do: y = x. Any n, 0 included; nothing beyond n is touched.
void ${name}(const float* x, size_t n, float* y);

}  // namespace spillway
`,
    [`native/kernels/cpu/${name}.cpp`]: `#include "${name}.h"

namespace spillway {

void ${name}(const float* x, size_t n, float* y) {
  for (size_t i = 0; i < n; i++) y[i] = x[i];
}

}  // namespace spillway
`,
    [`native/tests/kernels/${snake(name)}_test.cpp`]: `#include "../../kernels/cpu/${name}.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway {
namespace {

TEST(${capital(name)}, TouchesNothingBeyondItsRow) {
  const std::vector<float> x = {1, 2, 3, 4};
  for (size_t n = 0; n <= x.size(); n++) {
    std::vector<float> y(x.size(), -1.0f);
    ${name}(x.data(), n, y.data());
    for (size_t i = n; i < y.size(); i++) EXPECT_EQ(y[i], -1.0f);
  }
}

TEST(${capital(name)}, ComputesWhatAPlainLoopDoes) { FAIL() << "to do: the same numbers, computed plainly, bit for bit"; }

}  // namespace
}  // namespace spillway
`,
  }),
  format: (name) => ({
    [`src/jobs/formats/${name}.ts`]: `import { isUtf8 } from 'node:buffer';
import { ROW_LIMITS } from '../../model/files/limits.js';
import { countLines, filledLines, noText, tooLong } from './readLines.js';
import type { RowFormat } from './RowFormat.js';

/** To do: says what stands in a line. */
export const ${name}: RowFormat = {
  name: '${snake(name, '-')}',
  extensions: ['${name.toLowerCase()}'],
  async *rows(source, { maxLineBytes, templated = false }) {
    for await (const { number, bytes } of filledLines(source, maxLineBytes)) {
      if (bytes === undefined) yield tooLong(number, maxLineBytes);
      else if (!isUtf8(bytes)) yield noText(number, 'invalid-row');
      else {
        // To do: a row of the line.
        const prompt = bytes.toString('utf8');
        yield { id: number, duplicate: false, ...(templated ? { fields: { prompt } } : { prompt }) };
      }
    }
  },
  count: (source) => countLines(source, ROW_LIMITS.lineBytes),
  async *encode(results) {
    // To do: a result's line.
    for await (const { result } of results) yield \`\${JSON.stringify(result.text ?? '')}\\n\`;
  },
};
`,
    [`test/jobs/formats/${name}.test.ts`]: `import { expect, test } from '@jest/globals';
import { ${name} } from '../../../src/jobs/formats/${name}.js';
import { jobsOnFiles } from './support.js';

const { job } = jobsOnFiles();

test('${name}: each row of a file is answered', async () => {
  const { summary } = await job('rows', 'one\\ntwo\\n', 'answers', { inputFormat: ${name}, outputFormat: ${name} });
  expect(summary).toMatchObject({ done: 2, failed: 0 });
});

test('${name}: what is written is read back, and what is no row is a bad row', async () => {
  const { text } = await job('rows', 'one\\n', 'answers', { inputFormat: ${name}, outputFormat: ${name} });
  expect(text).toBe('to do: a line of the format');
});
`,
  }),
};

const GUIDES = { operator: 'stage', family: 'family', kernel: 'weight-type', format: 'format' };

function snake(name, between = '_') {
  return name.replace(/[A-Z]/g, (letter) => `${between}${letter.toLowerCase()}`);
}

function capital(name) {
  return `${name[0].toUpperCase()}${name.slice(1)}`;
}

/**
 * The text of each file of a new part, by its path.
 * @throws Error for another kind or name
 */
export function newFiles(kind, name) {
  if (!Object.hasOwn(KINDS, kind))
    throw new Error(`found ${kind ?? 'no kind'}, expected one of ${Object.keys(KINDS).join(', ')}`);
  if (!/^[a-z][A-Za-z0-9]*$/.test(name ?? ''))
    throw new Error(`found ${name ?? 'no name'}, expected a name such as storeActivation`);
  return KINDS[kind](name);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [kind, name] = process.argv.slice(2);
  try {
    const files = Object.entries(newFiles(kind, name));
    const there = files.find(([path]) => existsSync(join(ROOT, path)));
    if (there) throw new Error(`found ${there[0]} already, expected another name`);
    for (const [path, text] of files) {
      const filepath = join(ROOT, path);
      const shaped = path.endsWith('.ts') ? await format(text, { ...(await resolveConfig(filepath)), filepath }) : text;
      writeFileSync(filepath, shaped);
      process.stdout.write(`${path}\n`);
    }
    process.stdout.write(`What else it touches: docs/guides/${GUIDES[kind]}.md\n`);
  } catch (error) {
    process.stderr.write(`${error.message}\nUsage: npm run new -- ${Object.keys(KINDS).join('|')} NAME\n`);
    process.exitCode = 1;
  }
}
