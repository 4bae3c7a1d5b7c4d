declare const UNITS: {
    timeout: string;
    cpus: string;
    memory: string;
    processes: string;
    tmp_size: string;
    workspace_size: string;
    workspace_files: string;
    file_size: string;
    open_files: string;
    output: string;
};
export type Limits = {
    [name in keyof typeof UNITS]?: number | string;
};
export {};
