// What the package exports, entry by entry, as docs/api-report/*.api.md, so that each change of it shows in review.
//   node scripts/api-report.mjs [--check]     needs `npm run build`
// Without --check the reports are written; with it the script exits with 1 where one of them is out of date.
import { Extractor, ExtractorConfig, ExtractorLogLevel, CompilerState } from '@microsoft/api-extractor';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { values: options } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const reportFolder = join(root, 'docs', 'api-report');
const scratch = mkdtempSync(join(tmpdir(), 'spillway-api-report-'));
mkdirSync(reportFolder, { recursive: true });

const none = { default: { logLevel: ExtractorLogLevel.None } };
const configs = Object.entries(manifest.exports)
  .filter(([, target]) => target.types)
  .map(([entry, { types }]) =>
    ExtractorConfig.prepare({
      configObjectFullPath: undefined,
      packageJsonFullPath: join(root, 'package.json'),
      configObject: {
        projectFolder: root,
        newlineKind: 'lf',
        mainEntryPointFilePath: join(root, types),
        compiler: { tsconfigFilePath: join(root, 'tsconfig.build.json') },
        apiReport: {
          enabled: true,
          reportFolder,
          reportTempFolder: scratch,
          reportFileName: entry === '.' ? 'spillway' : `spillway-${basename(entry)}`,
        },
        docModel: { enabled: false },
        dtsRollup: { enabled: false },
        tsdocMetadata: { enabled: false },
        messages: { compilerMessageReporting: none, extractorMessageReporting: none, tsdocMessageReporting: none },
      },
    }),
  );

// One program for all entries: most of the time goes into making it.
const compilerState = CompilerState.create(configs[0], {
  additionalEntryPoints: configs.map((config) => config.mainEntryPointFilePath),
});
const stale = configs.filter((config) => {
  const result = Extractor.invoke(config, {
    compilerState,
    localBuild: !options.check,
    messageCallback: (message) => {
      message.handled = message.logLevel !== ExtractorLogLevel.Error;
    },
  });
  return options.check && result.apiReportChanged;
});
rmSync(scratch, { recursive: true });
for (const { reportFilePath } of stale)
  console.error(`${relative(root, reportFilePath)}: out of date; run \`npm run api\``);
process.exitCode = stale.length > 0 ? 1 : 0;
