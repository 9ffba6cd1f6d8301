import { defineConfig, globalIgnores } from 'eslint/config';
import tseslint from 'typescript-eslint';

const NO_DEFAULT_EXPORT = {
  selector: 'ExportDefaultDeclaration',
  message: 'Export by name, so that a thing has one name everywhere.',
};

/** Prettier breaks code; this holds comments to the same width. Words of messages and patterns stay on one line. */
const MAX_LEN = {
  code: 120,
  ignoreStrings: true,
  ignoreTemplateLiterals: true,
  ignoreRegExpLiterals: true,
  ignoreUrls: true,
};

/** Rules that hold wherever TypeScript is written, beyond the strict type-aware set. */
const typed = {
  '@typescript-eslint/no-floating-promises': 'error',
  '@typescript-eslint/no-misused-promises': 'error',
  '@typescript-eslint/no-non-null-assertion': 'error',
  '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
  '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
  '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
  // A leading underscore says that an argument is there for its place only.
  '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
  // `while (true)` and defensive checks of untrusted values are wanted; both read as "unnecessary" to the type checker.
  '@typescript-eslint/no-unnecessary-condition': 'off',
  // An async function without `await` still turns what it throws into a rejection, and an async generator into what its
  // callers iterate over.
  '@typescript-eslint/require-await': 'off',
  '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
  eqeqeq: ['error', 'always', { null: 'ignore' }],
  'max-len': ['error', MAX_LEN],
  'no-restricted-syntax': ['error', NO_DEFAULT_EXPORT],
};

export default defineConfig(
  globalIgnores([
    'dist/',
    'docs/api/',
    'coverage/',
    'native/',
    'bench/peers/node_modules/',
    'bench/results/',
    'site/dist/',
    'site/.vitepress/cache/',
    'test/fixtures/',
  ]),
  {
    linterOptions: { reportUnusedDisableDirectives: 'error' },
  },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { project: './tsconfig.json', tsconfigRootDir: import.meta.dirname } },
    rules: typed,
  },
  {
    files: ['src/**/*.ts'],
    rules: {
      '@typescript-eslint/explicit-module-boundary-types': 'error',
      // A library prints nothing by itself; the command line writes through its own streams.
      'no-console': 'error',
      'max-lines': ['error', { max: 400, skipComments: true, skipBlankLines: true }],
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: {
      // Tests build hostile values on purpose, and jest's matchers are untyped where they match parts.
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
      '@typescript-eslint/unbound-method': 'off',
      '@typescript-eslint/no-empty-function': 'off',
      '@typescript-eslint/no-misused-spread': 'off',
    },
  },
  {
    files: ['**/*.js', '**/*.mjs', '**/*.cjs'],
    extends: [tseslint.configs.base],
    rules: {
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-undef': 'off',
      'no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      'prefer-const': 'error',
    },
  },
  {
    // Configuration files and jest's reporter are loaded by their default export.
    files: ['scripts/**/*.mjs', 'bench/**/*.mjs'],
    rules: { 'no-restricted-syntax': ['error', NO_DEFAULT_EXPORT] },
  },
);
