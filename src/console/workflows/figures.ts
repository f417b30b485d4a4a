// A workflow's performance as lines and words. It is pure: the figures are the service's.

export interface Bucket {
  readonly at: string;
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
}

export interface Ended {
  readonly succeeded: number;
  readonly failed: number;
  readonly cancelled: number;
}

export const seconds = (buckets: readonly Bucket[]): number[] => buckets.map(({ at }) => Date.parse(at) / 1_000);

/** Runs a minute. */
export const rates = (buckets: readonly Bucket[], bucketMs: number, of: keyof Ended): number[] =>
  buckets.map((bucket) => (bucket[of] * 60_000) / bucketMs);

/** Cancelled runs do not count; where none ended, there is no rate. */
export const successRate = ({ succeeded, failed }: Ended): number | undefined =>
  succeeded + failed === 0 ? undefined : succeeded / (succeeded + failed);

export const sum = (buckets: readonly Bucket[]): Ended =>
  buckets.reduce(
    (all, { succeeded, failed, cancelled }) => ({
      succeeded: all.succeeded + succeeded,
      failed: all.failed + failed,
      cancelled: all.cancelled + cancelled,
    }),
    { succeeded: 0, failed: 0, cancelled: 0 },
  );
