import { describe, expect, test } from '@jest/globals';
import { createRequire } from 'node:module';
import { inspect } from 'node:util';
import { readSql } from '../../../src/jobs/input/readSql.js';
import { withoutSecrets } from '../../../src/jobs/input/sqlSecrets.js';
import { failureOf } from '../formats/support.js';
import { collect } from '../support/files.js';

const SECRET = 'S3CR3T,x/y';
const STATEMENTS = [
  "attach 'postgres:host=db password=SECRET123' as p (type postgres); select 1 as prompt",
  "attach 'postgres:host=db password=SECRET123' as p (type postgres; select 1 as prompt",
  "attach 'dbname=x user=u PASSWORD = SECRET123 host=127.0.0.1' as p (type postgres); select * from p.t",
  "attach 'postgres://me:SECRET123@127.0.0.1:1/db' as p (type postgres); select 1 as prompt",
  "attach 'postgresql://me:SECRET123@h/p?sslmode=x' as p (type postgres); selec 1",
  "attach 'mysql:host=h password=SECRET123' as p (type nosuchtype); select 1 as prompt",
  "create secret s (type s3, key_id 'SECRET123', secret 'SECRET123', region 'x', nosuch 'y'); select 1 as prompt",
  "create secret (type http, bearer_token 'SECRET123', nosuch 1); select 1 as prompt",
  "set s3_secret_access_key='SECRET123'; selec 1 as prompt",
  "set nosuch_password = 'SECRET123'; select 1 as prompt",
  "select * from read_csv('https://h.invalid/x.csv?X-Amz-Signature=SECRET123&sig=SECRET123')",
  "select * from nosuch('AccountKey=SECRET123;EndpointSuffix=core')",
  "select 'password=SECRET123' as prompt from nosuchtable",
  "select 1 as prompt, 'token: SECRET123' x from t where (",
];

test('secrets are told by what stands before them, however they are quoted', () => {
  for (const said of [
    `password=${SECRET.replaceAll(',', '')}`,
    `password='it''s ${SECRET}'`,
    `"api_key": "${SECRET}"`,
    `postgres://me:${SECRET}@h/db`,
    `mysql://me:${encodeURIComponent(SECRET)}@h/db`,
  ])
    expect(withoutSecrets(`cannot open ${said}`)).not.toMatch(/S3CR3T/);
  expect(withoutSecrets("it's at S3CR3T,x/y", `postgres://me:${encodeURIComponent(SECRET)}@h/db`)).toBe("it's at ***");
  expect(withoutSecrets("x isn't there: it's", "password='it''s'")).toBe("x isn't there: ***");
  const harmless = 'Catalog Error: Table t does not exist!\n\nLINE 1: select * from t\n              ^';
  expect(withoutSecrets(harmless, 'select * from t')).toBe(harmless);
});

test.each([
  ['secret $$S3CR3T x$$', 'S3CR3T x'],
  ['secret $a$S3CR3T $$ x$a$', 'S3CR3T $$ x'],
  ['secret $ä$S3CR3T$ä$', 'S3CR3T'],
  // Cut off in their midst.
  ["secret 'S3CR3T x", 'S3CR3T x'],
  ['password="S3CR3T', 'S3CR3T'],
  ['password = $b$S3CR3T x', 'S3CR3T x'],
])('so are texts between dollars, and what is not closed: %s', (said, secret) => {
  expect(withoutSecrets(`near ${said}`)).toBe(`near ${said.replace(secret, '***')}`);
  expect(withoutSecrets(`found ${secret}`, said)).toBe('found ***');
});

// A database repeats a value in its words: any row's.
test.each([
  ['letters', 'a'.repeat(2 ** 21)],
  ['addresses', 'a://'.repeat(2 ** 19)],
  ['blanks', `password${' '.repeat(2 ** 21)}'`],
  ['lines', '\n'.repeat(2 ** 21)],
  ['names', Array.from({ length: 2 ** 17 }, (_, at) => `password=a${at}`).join(' ')],
  ['quotes', "password='".repeat(2 ** 17)],
  ['pairs of quotes', `password=${"''".repeat(2 ** 20)}`],
  ['tags', Array.from({ length: 2 ** 16 }, (_, at) => `password=$a${at}$`).join(' ')],
  ['nears', 'at or near "'.repeat(2 ** 17)],
])('words of any size are gone through once, and told to a bound: %s', (_, value) => {
  for (const sql of ['select 1', "attach 'password=x'"]) {
    const told = withoutSecrets(`Conversion Error: Could not convert string '${value}' to INT32`, sql);
    expect(told.length).toBeLessThan(2 ** 15);
    expect(told).toMatch(/^Conversion Error: Could not convert string '/);
  }
});

let installed = true;
try {
  createRequire(import.meta.url).resolve('@duckdb/node-api');
} catch {
  installed = false;
}

(installed ? describe : describe.skip)('DuckDB fails (skipped where this optional peer is not installed)', () => {
  test.each(STATEMENTS)('%s', async (sql) => {
    const error = await failureOf(collect(readSql(sql)));
    expect(error.message).toMatch(/^SQL: the query failed: \S/);
    // What a program logs of it, cause and all.
    expect(inspect(error, { depth: 9 })).not.toContain('SECRET123');
  });

  test('a database that is an address', async () => {
    const error = await failureOf(collect(readSql('select 1', { database: 'postgres://me:SECRET123@h/db' })));
    expect(inspect(error, { depth: 9 })).not.toContain('SECRET123');
  });
});
