/**
 * Pieces as they arrive, then the result: `for await (const piece of stream)`, `await stream.result`. Leaving the loop
 * ends the cell or run.
 * @template P, R
 */
export declare class Stream<P, R> {
    #private;
    /** The result. The cell or run starts when the result or a piece is first requested. */
    get result(): Promise<R>;
    /** @returns {AsyncGenerator<P, void, void>} */
    [Symbol.asyncIterator](): AsyncGenerator<P, void, void>;
}
