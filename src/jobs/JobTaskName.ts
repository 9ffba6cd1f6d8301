/** What a job does with its rows. */
export type JobTaskName = 'generate' | 'classify' | 'score' | 'embed';
