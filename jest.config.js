/** @type {import('jest').Config} */
export default {
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  testEnvironment: '<rootDir>/test/support/OrdinaryGlobals.js',
  runtime: '<rootDir>/test/support/QuickRuntime.cjs',
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: {
    '^spillway$': '<rootDir>/src/index.ts',
    '^spillway/(.*)$': '<rootDir>/src/api/$1.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  transform: {
    '^.+\\.ts$': [
      '@swc/jest',
      { jsc: { target: 'es2022', parser: { syntax: 'typescript' } }, module: { type: 'es6' }, sourceMaps: 'inline' },
    ],
  },
  setupFiles: ['<rootDir>/test/support/optimiseLate.ts', '<rootDir>/test/support/seed.ts'],
  // Most tests wait for a process or the disk now and then.
  maxWorkers: '100%',
  // Modules of test files that have ended stay in memory: caps on a process's memory would count them.
  workerIdleMemoryLimit: '1GiB',
  // Against hanging for ever, and nothing else: what takes seconds takes minutes on a machine that others use. No test
  // has a time of its own.
  testTimeout: 600_000,
  testSequencer: '<rootDir>/test/support/slowFirst.js',
  reporters: ['default', '<rootDir>/test/support/countsReporter.js'],
};
