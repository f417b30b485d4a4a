// Lists of the API, page by page. The order and the filters are the list's.

/** A page as the API answers. */
export interface Page<Item> {
  readonly items: readonly Item[];
  /** Exact up to 10,000, or wherever `count: "exact"` asked for it. */
  readonly total: number;
  /** There are at least `total`. */
  readonly total_is_lower_bound?: boolean | undefined;
  /** The page ended before its limit, at 8 MiB. */
  readonly truncated?: boolean | undefined;
  readonly next_offset?: number | undefined;
  readonly limit: number;
  readonly offset: number;
  readonly next_cursor?: string | undefined;
}

type ReadPage<Of> = (query: {
  readonly cursor?: string;
  readonly limit?: number;
  readonly count?: "exact";
}) => Promise<Of>;

/** A list as an async iterator of its items: `for await (const run of client.runs.list())`. A page is read when its items are needed. */
export class Pages<Item, Of = Page<Item>> implements AsyncIterable<Item> {
  constructor(private readonly read: ReadPage<Of>) {}

  async *[Symbol.asyncIterator](): AsyncGenerator<Item, void, undefined> {
    for await (const page of this.pages()) yield* asPage<Item>(page).items;
  }

  /** The pages, each as the API answers. */
  async *pages(): AsyncGenerator<Of, void, undefined> {
    let cursor: string | undefined;
    do {
      const page = await this.read(cursor === undefined ? {} : { cursor });
      yield page;
      cursor = asPage<Item>(page).next_cursor;
    } while (cursor !== undefined);
  }

  /** The first page. */
  first(): Promise<Of> {
    return this.read({});
  }

  /** All items at once, at most `max` (default 10,000). */
  async all(max = 10_000): Promise<Item[]> {
    const items: Item[] = [];
    if (max <= 0) return items;
    for await (const item of this) if (items.push(item) >= max) break;
    return items;
  }

  /** How many items there are, counted exactly. */
  async count(): Promise<number> {
    return asPage<Item>(await this.read({ limit: 1, count: "exact" })).total;
  }
}

/** A list may have more beside its page, which only its own type knows. */
const asPage = <Item>(page: unknown) => page as Page<Item>;
