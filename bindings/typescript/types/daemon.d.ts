/** @returns {string} */
export declare function socketPath(): string;
/**
 * Code goes to nobody else: only this user can have put a socket into a folder that is his alone.
 * False: there is no folder yet; the daemon makes it, and nobody else's may be used that comes meanwhile.
 * @param {string} path
 */
export declare function checkOwner(path: string): boolean;
/**
 * The program: SNIPARA_SANDBOX_BIN (the program or its folder), else in PATH.
 * @returns {string}
 */
export declare function findProgram(): string;
/** Start the daemon, unless one runs by now: any command that needs it does so, and waits until it answers. */
export declare function startDaemon(): Promise<void>;
