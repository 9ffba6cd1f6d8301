import { createRequire } from 'node:module';
import { describe, expect, test } from '@jest/globals';
import { DUCKDB_BYTES, limitOf, statementsOf } from '../../../src/jobs/input/duckDbLimit.js';

/** It is a peer, which users install. */
function installed(): boolean {
  try {
    createRequire(import.meta.url).resolve('@duckdb/node-api');
    return true;
  } catch {
    return false;
  }
}

test.each<[string, number | undefined]>([
  ['select 1', 5e9],
  ["select current_setting('memory_limit') as prompt where memory_limit = '7GB'", 5e9],
  ["set memory_limit = '1GB'; select 1", 2e9],
  ["SET GLOBAL max_memory TO '1.5 GiB'; select 1", 3 * 2 ** 30],
  ["pragma memory_limit='600MB'; set memory_limit='700 MiB'; select 1", 1400 * 2 ** 20],
  ["set memory_limit = '80%'; select 1", undefined],
  ["set memory_limit = '10MB'; select 1", DUCKDB_BYTES],
  ["-- set memory_limit = '16MB' would do\nselect 'set memory_limit = ''1MB''; set memory_limit = x' as prompt", 5e9],
  ["/* ; */ set memory_limit = '1GB'; select 1", 2e9],
  ["select $tag$a; set memory_limit = '1MB'$tag$; set memory_limit = '1GB'; select $$;$tag$;$$", 2e9],
  ["select $a$;$b$; set memory_limit = '1GB';$b$;$a$", 5e9],
  ["select a$$ from t; set memory_limit = '1GB'; select b$$", 2e9],
  ["select $1; set memory_limit = '1GB'; select $2", 2e9],
  ["select $é1$; set memory_limit = '1GB';$é1$", 5e9],
  ["select e'it\\'s; set memory_limit = 1'; set memory_limit = '1GB'; select 1", 2e9],
  ["select lee'\\'; set memory_limit = '1GB'; select '\\'", 2e9],
  ["/* a /* b */ ; set memory_limit = '3GB'; */ set memory_limit = '1GB'; select 1", 2e9],
  ["set/**/memory_limit -- as\n = '1GB'; select 1", 2e9],
  ['set "memory_limit" = \'1GB\'; select 1', 2e9],
  ["select 'unclosed; set memory_limit = '1GB'; select 1", 5e9],
  ["select $a$; set memory_limit = '1GB'; select 1", 5e9],
  ["/* set memory_limit = '1GB'; select 1", 5e9],
])('the process may have as much as the statements say: %s', (sql, bytes) => {
  expect(limitOf(sql, 5e9)).toBe(bytes);
});

test('texts and comments that nobody closes are gone through once', () => {
  for (const opened of ['$a$', "e'\\'", '/*', '"', '--', "'"]) {
    const sql = `select ${opened.repeat(200_000)}`;
    expect(statementsOf(sql)).toHaveLength(1);
  }
  expect(statementsOf('select $a$ $b$ '.repeat(50_000))).toHaveLength(1);
  expect(statementsOf('$$;'.repeat(200_001))).toHaveLength(100_001);
});

(installed() ? describe : describe.skip)('DuckDB parts statements likewise (skipped without @duckdb/node-api)', () => {
  test.each([
    'select 1; select 2',
    "select ';'; select 'it''s; '",
    'select ";;" from t; select 1',
    'select $$;$$; select $a$;$$;$a$; select $_1$;$_1$',
    'select $é$;$é$; select 1',
    'select a$$ from t; select b$$ from t',
    'select a$x$ from t; select 1 as b$x$',
    "select e'\\';'; select E'\\\\'; select '\\'; select 1",
    'select 1 -- ; select 2\n; select 3',
    'select 1 -- ; select 2\r; select 3',
    'select /* ; /* ; */ ; */ 1; select 2',
    'select /*/ ; */ 1; select 2',
    'select 1 /**/; select 2',
    "select x'00'; select 1e1; select 1 - -1; select 4 / 2",
    'select 1;; ; select 2;',
  ])('%s', async (sql) => {
    const { DuckDBInstance } = await import('@duckdb/node-api');
    const instance = await DuckDBInstance.create(':memory:');
    const connection = await instance.connect();
    try {
      const { count } = await connection.extractStatements(sql);
      expect(statementsOf(sql).filter((statement) => statement.trim() !== '')).toHaveLength(count);
    } finally {
      connection.closeSync();
      instance.closeSync();
    }
  });
});
