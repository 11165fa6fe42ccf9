// A library that is preloaded to make system calls fail, as on a file system that doesn't support
// them. The environment variable POOR contains the calls and their error numbers. For example,
// POOR=flock=38,fsync=22,link=1 affects flock, fsync of folders, and hard links. If POOR contains
// "inode", each call of statx returns a different inode number.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int error_of(const char *call) {
  const char *poor = getenv("POOR"), *found = poor ? strstr(poor, call) : NULL;
  return found ? atoi(found + strlen(call) + 1) : 0;
}

static int fails(const char *call) {
  int error = error_of(call);
  if (error) errno = error;
  return error;
}

int flock(int file, int operation) {
  return fails("flock") ? -1 : syscall(SYS_flock, file, operation);
}

int fsync(int file) {
  struct stat found;
  int is_folder = !fstat(file, &found) && S_ISDIR(found.st_mode);
  return is_folder && fails("fsync") ? -1 : syscall(SYS_fsync, file);
}

int linkat(int folder, const char *path, int new_folder, const char *new_path, int flags) {
  return fails("link") ? -1 : syscall(SYS_linkat, folder, path, new_folder, new_path, flags);
}

int link(const char *path, const char *new_path) {
  return linkat(AT_FDCWD, path, AT_FDCWD, new_path, 0);
}

int statx(int folder, const char *path, int flags, unsigned mask, struct statx *found) {
  static unsigned long inodes = 1000000;
  int result = syscall(SYS_statx, folder, path, flags, mask, found);
  if (!result && getenv("POOR") && strstr(getenv("POOR"), "inode")) found->stx_ino = inodes++;
  return result;
}
