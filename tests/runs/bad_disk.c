/* A disk that fails, for tests: loaded into a process with LD_PRELOAD, it sees every system call that writes.

   Calls on files below a folder are counted. bad_disk_arm() makes the n-th of them fail with an error number,
   or makes a write stop half-way ("short"), or cuts the power ("power"): data that was not synced to the
   disk is lost, renames whose folder was not synced are undone, and the process is killed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum mode { OFF, FAIL, SHORT, POWER };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum mode mode = OFF;
static long failing_call, error_number;
static long calls, has_fired;
static char folder[4096];

/* Files with data that is not on the disk, and renames whose folder is not. */
#define MOST 4096
static struct { char path[1024]; off_t synced; int is_dirty; } files[MOST];
static int num_files;
static struct { char from[1024], to[1024], replaced[1024]; int is_durable; } renames[MOST];
static int num_renames;

#define REAL(result, name, ...) \
    static result (*real_##name)(__VA_ARGS__); \
    if (!real_##name) real_##name = dlsym(RTLD_NEXT, #name)

void bad_disk_arm(const char *below, long call, int error, int how) {
    snprintf(folder, sizeof folder, "%s", below);
    failing_call = call; error_number = error; mode = how;
    calls = has_fired = 0; num_files = num_renames = 0;
}

long bad_disk_calls(void) { return calls; }
long bad_disk_fired(void) { return has_fired; }

static int is_watched(const char *path) {
    return mode != OFF && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int path_of(int handle, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, size - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_watched(path);
}

static int file_at(const char *path) {
    for (int i = 0; i < num_files; i++) if (!strcmp(files[i].path, path)) return i;
    if (num_files == MOST) abort();
    snprintf(files[num_files].path, sizeof files[0].path, "%s", path);
    struct stat found;
    files[num_files].synced = stat(path, &found) ? 0 : found.st_size;
    return num_files++;
}

static void lose_power(void) {
    for (int i = 0; i < num_files; i++)
        if (files[i].is_dirty && truncate(files[i].path, files[i].synced)) { /* it is gone */ }
    REAL(int, rename, const char *, const char *);
    for (int i = num_renames - 1; i >= 0; i--)
        if (!renames[i].is_durable) {
            real_rename(renames[i].to, renames[i].from);
            real_rename(renames[i].replaced, renames[i].to); /* if there was one */
        }
    kill(0, SIGKILL);
    pause();
}

/* Whether this call is the one that fails. */
static int fails_now(void) {
    pthread_mutex_lock(&lock);
    int is_it = ++calls == failing_call;
    if (is_it) has_fired = 1;
    pthread_mutex_unlock(&lock);
    if (is_it && mode == POWER) lose_power();
    if (is_it) errno = error_number;
    return is_it;
}

static void wrote(const char *path) {
    pthread_mutex_lock(&lock);
    files[file_at(path)].is_dirty = 1;
    pthread_mutex_unlock(&lock);
}

ssize_t write(int handle, const void *data, size_t count) {
    REAL(ssize_t, write, int, const void *, size_t);
    char path[1024];
    if (!path_of(handle, path, sizeof path)) return real_write(handle, data, count);
    pthread_mutex_lock(&lock);
    file_at(path);
    pthread_mutex_unlock(&lock);
    if (fails_now()) {
        if (mode != SHORT || count < 2) return -1;
        failing_call++; /* the rest of the bytes finds no space */
        return real_write(handle, data, count / 2);
    }
    ssize_t written = real_write(handle, data, count);
    wrote(path);
    return written;
}

int fsync(int handle) {
    REAL(int, fsync, int);
    char path[1024];
    if (!path_of(handle, path, sizeof path)) return real_fsync(handle);
    if (fails_now()) return -1;
    pthread_mutex_lock(&lock);
    struct stat found;
    fstat(handle, &found);
    if (S_ISDIR(found.st_mode)) {
        for (int i = 0; i < num_renames; i++) {
            size_t length = strlen(path);
            if (!strncmp(renames[i].to, path, length) && renames[i].to[length] == '/'
                && !strchr(renames[i].to + length + 1, '/')) renames[i].is_durable = 1;
        }
    } else {
        int file = file_at(path);
        files[file].is_dirty = 0; files[file].synced = found.st_size;
    }
    pthread_mutex_unlock(&lock);
    return 0; /* the tests need not wait for a real disk */
}

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    if (!is_watched(to)) return real_rename(from, to);
    if (fails_now()) return -1;
    pthread_mutex_lock(&lock);
    if (num_renames == MOST) abort();
    snprintf(renames[num_renames].replaced, sizeof renames[0].replaced, "%s.replaced-%d", folder, num_renames);
    if (link(to, renames[num_renames].replaced)) { /* nothing is replaced */ }
    int result = real_rename(from, to);
    if (!result) {
        snprintf(renames[num_renames].from, sizeof renames[0].from, "%s", from);
        snprintf(renames[num_renames].to, sizeof renames[0].to, "%s", to);
        renames[num_renames++].is_durable = 0;
        for (int i = 0; i < num_files; i++)
            if (!strcmp(files[i].path, from)) snprintf(files[i].path, sizeof files[0].path, "%s", to);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

int mkdir(const char *path, mode_t permissions) {
    REAL(int, mkdir, const char *, mode_t);
    if (is_watched(path) && fails_now()) return -1;
    return real_mkdir(path, permissions);
}

int unlink(const char *path) {
    REAL(int, unlink, const char *);
    if (is_watched(path) && fails_now()) return -1;
    return real_unlink(path);
}

int ftruncate64(int handle, off64_t length) {
    REAL(int, ftruncate64, int, off64_t);
    char path[1024];
    if (path_of(handle, path, sizeof path) && fails_now()) return -1;
    return real_ftruncate64(handle, length);
}

static int opens_to_write(int flags) { return (flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0; }

int open64(const char *path, int flags, ...) {
    REAL(int, open64, const char *, int, ...);
    va_list rest; va_start(rest, flags);
    mode_t permissions = va_arg(rest, mode_t);
    va_end(rest);
    if (is_watched(path) && opens_to_write(flags) && fails_now()) return -1;
    return real_open64(path, flags, permissions);
}

int open(const char *path, int flags, ...) {
    REAL(int, open, const char *, int, ...);
    va_list rest; va_start(rest, flags);
    mode_t permissions = va_arg(rest, mode_t);
    va_end(rest);
    if (is_watched(path) && opens_to_write(flags) && fails_now()) return -1;
    return real_open(path, flags, permissions);
}
