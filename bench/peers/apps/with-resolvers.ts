// `Promise.withResolvers` for Node 20, which does not have it and which the Restate SDK needs. Import it before the SDK.

function withResolvers<T>() {
  let resolve: (value: T | PromiseLike<T>) => void = () => {};
  let reject: (reason: unknown) => void = () => {};
  const promise = new Promise<T>((...both) => {
    [resolve, reject] = both;
  });
  return { promise, resolve, reject };
}

if (!("withResolvers" in Promise)) Object.assign(Promise, { withResolvers });
