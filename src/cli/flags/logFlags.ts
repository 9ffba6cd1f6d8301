import { Option, type Command } from 'commander';
import { log, LOG_FORMATS, type LogFormat } from '../Log.js';

/** How the words of a command that runs long are written. */
export function addLogFlag(command: Command): void {
  command.addOption(
    new Option(
      '--log-format <format>',
      'words on stderr with the time before each line (text), or as a JSON document a line (json); without a progress bar (default: words alone)',
    ).choices(LOG_FORMATS),
  );
  command.hook('preAction', (_, asked) => {
    log.format = asked.opts<{ readonly logFormat?: LogFormat }>().logFormat;
  });
}

/** When progress is shown. */
export function addProgressFlag(command: Command): void {
  command.addOption(
    new Option('--progress <when>', 'on stderr; auto: a bar if it is a terminal, else a line every 30 seconds')
      .choices(['auto', 'on', 'off'])
      .default('auto'),
  );
}
