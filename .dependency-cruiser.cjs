/**
 * Who may import whom: Engine.ts → operators → engine → {model, bindings}. Folders further to the right never import back,
 * pure folders import nothing that has effects, and the command line sees only what a user of the package sees.
 * Type-only imports count too: a type from the wrong side is a dependency in the wrong direction.
 *
 * @type {import('dependency-cruiser').IConfiguration}
 */
const PURE = '^src/(engine/schedules|plan)/';
const FACADES = '^src/(index|Engine)\\.ts$';

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', comment: 'No module may reach itself.', from: {}, to: { circular: true } },
    {
      name: 'resolvable',
      severity: 'error',
      comment: 'Every import must resolve, or the other rules cannot see where it leads.',
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: 'pure-folders-import-no-node',
      severity: 'error',
      comment: 'Schedules and policy are pure: no files, no clock, no process.',
      from: { path: PURE },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'pure-folders-import-no-effects',
      severity: 'error',
      comment:
        'Schedules and policy know neither the addon, nor the devices, nor the memory, nor what stands above them.',
      from: { path: PURE },
      to: {
        path:
          '^src/(bindings|profile|engine/(execution|memory|open|store|peers|calibration|rows|grammar)|operators|cli|jobs)(/|$)|' +
          FACADES,
      },
    },
    {
      name: 'pure-folders-import-no-package-with-effects',
      severity: 'error',
      comment: 'The only packages that pure folders may use compute and validate.',
      from: { path: PURE },
      to: { path: '^node_modules/', pathNot: '^node_modules/(zod|javascript-lp-solver)/' },
    },
    {
      name: 'errors-and-units-are-leaves',
      severity: 'error',
      comment:
        'Errors and units are used by everything, so they may use only each other, and the words for what was found.',
      from: { path: '^src/(errors/|units\\.ts$)' },
      to: { path: '^src/', pathNot: '^src/(errors/|units\\.ts$|arguments/found\\.ts$)' },
    },
    {
      name: 'collections-are-leaves',
      severity: 'error',
      comment: 'Collections know nothing of what is kept in them.',
      from: { path: '^src/collections/' },
      to: { path: '^src/', pathNot: '^src/collections/' },
    },
    {
      name: 'regex-is-a-leaf',
      severity: 'error',
      comment: 'How patterns are matched has nothing to do with whose they are.',
      from: { path: '^src/regex/' },
      to: { path: '^src/', pathNot: '^src/(regex|collections)/' },
    },
    {
      name: 'files-stand-alone',
      comment: 'How files are locked, replaced and read has nothing to do with what is in them.',
      severity: 'error',
      from: { path: '^src/files/' },
      to: { path: '^src/', pathNot: '^src/(files|errors|arguments)/' },
    },
    {
      name: 'rows-stand-alone',
      severity: 'error',
      comment: 'What jobs and the engine both say of rows knows neither.',
      from: { path: '^src/rows/' },
      to: { path: '^src/', pathNot: '^src/(rows|arguments|errors)/|^src/(Row|Results|KeptAnswer)\\.ts$' },
    },
    {
      name: 'schemas-stand-alone',
      severity: 'error',
      comment: 'What a JSON Schema comes to has nothing to do with who is held to it.',
      from: { path: '^src/schema/' },
      to: { path: '^src/', pathNot: '^src/(schema|regex|collections|arguments|errors)/' },
    },
    {
      name: 'model-stands-alone',
      severity: 'error',
      comment: 'Model files are described without an engine and without the addon.',
      from: { path: '^src/model/' },
      to: { path: '^src/(bindings|engine|operators|jobs|cli)(/|$)|' + FACADES },
    },
    {
      name: 'bindings-stand-alone',
      severity: 'error',
      comment: "The addon's typed face knows the model's types and nothing above.",
      from: { path: '^src/bindings/' },
      to: { path: '^src/(engine|operators|jobs|cli)(/|$)|' + FACADES },
    },
    {
      name: 'grid-is-the-ground-floor',
      severity: 'error',
      comment:
        'Square, batch, task, device, tier and page table are what all rooms of the engine speak of: they know none of them.',
      from: { path: '^src/engine/grid/' },
      to: { path: '^src/(engine|plan|profile|operators|jobs|cli)/', pathNot: '^src/engine/grid/' },
    },
    {
      name: 'memory-below-execution',
      severity: 'error',
      comment: 'Pages and movements are counted whoever executes.',
      from: { path: '^src/engine/memory/' },
      to: { path: '^src/engine/', pathNot: '^src/engine/(grid|schedules|memory)/' },
    },
    {
      name: 'peers-below-execution',
      severity: 'error',
      comment: 'What engines tell each other is nothing to how each of them executes.',
      from: { path: '^src/engine/peers/' },
      to: { path: '^src/engine/(execution|calibration|rows|grammar)/' },
    },
    {
      name: 'engine-below-operators',
      severity: 'error',
      comment: 'The engine does not know the operators that use it.',
      from: { path: '^src/engine/' },
      to: { path: '^src/(operators|jobs|cli)(/|$)|' + FACADES },
    },
    {
      name: 'operators-below-engine-class',
      severity: 'error',
      comment: 'Operators work on what they are given; only Engine.ts composes and owns.',
      from: { path: '^src/operators/' },
      to: { path: '^src/(jobs|cli)(/|$)|' + FACADES },
    },
    {
      name: 'operators-do-not-touch-the-addon',
      severity: 'error',
      comment: 'Operators reach hardware through the Device interface alone.',
      from: { path: '^src/operators/' },
      to: { path: '^src/bindings/' },
    },
    {
      name: 'jobs-know-rows-not-engines',
      severity: 'error',
      comment:
        'Jobs turn files into rows and results into files, with a column for each property of a schema; what runs the rows is handed to them.',
      from: { path: '^src/jobs/' },
      to: {
        path: '^src/',
        pathNot:
          '^src/(jobs|files|errors|arguments|rows|schema|model|collections|telemetry)/|^src/(Row|Results|RunStats|EngineOptions|packageRoot|units)\\.ts$',
      },
    },
    {
      name: 'formats-know-no-jobs',
      severity: 'error',
      comment: 'A format reads rows and writes results, whoever asks for them: a job, or a caller of readRows.',
      from: { path: '^src/jobs/formats/' },
      to: { path: '^src/jobs/', pathNot: '^src/jobs/formats/' },
    },
    {
      name: 'kept-answers-stand-alone',
      severity: 'error',
      comment: 'A file of answers knows keys and answers: not what computes answers, nor what keys are made of.',
      from: { path: '^src/reuse/' },
      to: {
        path: '^src/',
        pathNot:
          '^src/(reuse|files|errors|arguments|collections)/|^src/(KeptAnswer|VectorType)\\.ts$|^src/rows/float32\\.ts$',
      },
    },
    {
      name: 'serve-knows-jobs-not-engines',
      severity: 'error',
      comment:
        'A server turns requests into rows and jobs, and results into answers; what runs the rows is handed to it.',
      from: { path: '^src/serve/' },
      to: {
        path: '^src/',
        pathNot:
          '^src/(serve|jobs|metrics|telemetry|files|errors|arguments|collections|rows)/|^src/model/files/limits\\.ts$|^src/(Row|Results|RunStats|KeptAnswer|units)\\.ts$',
      },
    },
    {
      name: 'nothing-below-knows-the-server',
      severity: 'error',
      comment: 'The library works without a server.',
      from: { path: '^src/', pathNot: '^src/(serve|aiSdk|api|cli)/' },
      to: { path: '^src/serve/' },
    },
    {
      name: 'ai-sdk-stands-above',
      severity: 'error',
      comment:
        'A provider of the AI SDK turns calls into rows and batches, as the server does; it opens engines, and looks into none.',
      from: { path: '^src/aiSdk/' },
      to: { path: '^src/(engine|operators|bindings|model|profile|plan|cli|api)/' },
    },
    {
      name: 'nothing-below-knows-the-ai-sdk',
      severity: 'error',
      comment: 'The library works without the AI SDK.',
      from: { path: '^src/', pathNot: '^src/(aiSdk|api)/' },
      to: { path: '^src/aiSdk/|^node_modules/(@ai-sdk|ai)/' },
    },
    {
      name: 'metrics-are-a-leaf',
      severity: 'error',
      comment: 'How figures are told of has nothing to do with what they are of.',
      from: { path: '^src/metrics/' },
      to: { path: '^src/', pathNot: '^src/metrics/' },
    },
    {
      name: 'telemetry-is-a-leaf',
      severity: 'error',
      comment: 'What is traced is told of by those whose it is.',
      from: { path: '^src/telemetry/' },
      to: { path: '^src/', pathNot: '^src/(telemetry|errors)/|^src/RunStats\\.ts$' },
    },
    {
      name: 'cli-uses-the-public-interface',
      severity: 'error',
      comment:
        'The command line is thin: it imports its own files, of which library.ts has what there is of the package.',
      from: { path: '^src/cli/', pathNot: '^src/cli/library\\.ts$' },
      to: { path: '^src/', pathNot: '^src/cli/|^src/oldNode\\.ts$' },
    },
    {
      name: 'cli-has-what-users-have',
      severity: 'error',
      comment:
        "Of engines, models, plans and jobs the command line has what the package's entries have, and nothing else. Rooms that know nothing of these it shares with the library.",
      from: { path: '^src/cli/library\\.ts$' },
      to: { path: '^src/', pathNot: '^src/(api|arguments|collections|files)/|^src/(index|packageRoot|units)\\.ts$' },
    },
    {
      name: 'nothing-imports-cli',
      severity: 'error',
      comment: 'The library works without its command line.',
      from: { path: '^src/', pathNot: '^src/cli/' },
      to: { path: '^src/cli/' },
    },
    {
      name: 'nothing-imports-index',
      severity: 'error',
      comment: 'index.ts is for users; inside, a module imports the file that it means.',
      from: { path: '^src/', pathNot: '^src/cli/' },
      to: { path: '^src/index\\.ts$' },
    },
    {
      name: 'no-development-packages',
      severity: 'error',
      comment: 'What ships may need only what is installed with it.',
      from: { path: '^src/' },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['type-only', 'npm-peer'] },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
