/* The subcommands of `peal`, one file each. argv[0] is the subcommand's name; the result is the exit code: 1 failed, 2 misused. */
#ifndef PEALI_COMMANDS_H
#define PEALI_COMMANDS_H

int peali_cmd_bench(int argc, char **argv);
int peali_cmd_check(int argc, char **argv);
int peali_cmd_info(int argc, char **argv);
int peali_cmd_show(int argc, char **argv);
int peali_cmd_sim(int argc, char **argv);
int peali_cmd_tune(int argc, char **argv);

#endif
