//! Arguments of `gpc mpiexec`.

use std::ffi::OsString;

/// Words of `mpiexec`.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[command(disable_help_flag = true, override_usage = MPIEXEC_USAGE, after_help = MPIEXEC_HELP)]
pub struct MpiexecArgs {
    /// Options, programs and their arguments, as for mpiexec
    #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    pub words: Vec<OsString>,
}

const MPIEXEC_USAGE: &str = "gpc mpiexec [OPTIONS] PROGRAM [ARGS]... [: [OPTIONS] PROGRAM [ARGS]...]...";

const MPIEXEC_HELP: &str = "\
A link to gpc with the name mpiexec or mpirun does the same. The line is translated to one of
`gpc run`, whose help says more. An option begins with one dash or two; others are refused.

For one program:
  -n, -np N              number of processes
  -wdir, -wd FOLDER      folder in which they start
  -env K V, -env K=V     a variable; -envlist A,B: variables of this command
  -envall, -envnone      the same as -genvall, -genvnone

For all programs, anywhere before a program:
  -hosts, -host, -H LIST hosts, such as a:2,b[1-4]; :K is the number of processes
  -f, -hostfile, -machinefile, -machine FILE
                         the same, with the hosts of a file
  -ppn, -perhost K       number of processes on each host
  -launcher, -bootstrap NAME
                         how processes get to hosts: ssh, slurm, lsf, sge, pbs, fork
  -launcher-exec, -bootstrap-exec CMD
                         command that runs another one on a host
  -genv K V, -genvlist A,B
                         as -env and -envlist
  -genvall, -genvnone    whether processes on other hosts get all variables; so by default
  -l, -prepend-rank      prefix each line of output with the rank: `[3] `
  -outfile-pattern, -errfile-pattern PATTERN
                         files for the output: %r is the rank, %h the host, %p the process id
  -print-all-exitcodes   print how each process ended
  -s, -stdin WHO         ranks that read standard input: all, none, or one
  -bind-to WHAT          none, core, socket or numa; machine and board are none
  -map-by WHAT           slot, node, core or socket; machine and board are slot
  -pmix WHEN             when to serve PMIx, which Open MPI needs: auto, always, never
  -timeout SECONDS       time limit; MPIEXEC_TIMEOUT in the environment is the default
  -disable-auto-cleanup  a process that fails does not end the others
  -configfile FILE       the rest of the line: each line of the file is a program
  -v, -verbose           print the line of `gpc run`
  -V, -version, -h, -help

Examples:
  gpc mpiexec -n 4 -l ./hello
  gpc mpiexec -genv OMP_NUM_THREADS 2 -n 1 ./leader : -n 7 ./worker
  ln -s gpc mpiexec; ./mpiexec -n 4 ./hello";
