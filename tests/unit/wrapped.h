/*
 * Functions that are not ours, which tests replace: see wrap() in CMakeLists.txt. A call of NAME()
 * goes to __wrap_NAME() of the test; __real_NAME() is the one of the library.
 */
#ifndef TESTS_WRAPPED_H
#define TESTS_WRAPPED_H

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>

struct crypt_data;
struct event;
struct event_base;
struct group;
struct passwd;
struct rlimit;
struct statvfs;

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */

/* Memory */
void *__wrap_malloc(size_t size);
void *__real_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__real_realloc(void *memory, size_t size);
void __wrap_free(void *memory);
void __real_free(void *memory);
FILE *__wrap_open_memstream(char **text, size_t *length);
FILE *__real_open_memstream(char **text, size_t *length);
int __wrap_fclose(FILE *file);
int __real_fclose(FILE *file);

/* Processes and users */
pid_t __wrap_fork(void);
pid_t __real_fork(void);
_Noreturn void __wrap__exit(int status);
_Noreturn void __real__exit(int status);
int __wrap_kill(pid_t pid, int number);
int __real_kill(pid_t pid, int number);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
pid_t __real_waitpid(pid_t pid, int *status, int options);
int __wrap_getrlimit(int resource, struct rlimit *limit);
int __real_getrlimit(int resource, struct rlimit *limit);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                          void *(*start)(void *), void *argument);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
struct passwd *__wrap_getpwnam(const char *name);
struct passwd *__real_getpwnam(const char *name);
struct passwd *__wrap_getpwuid(uid_t uid);
struct passwd *__real_getpwuid(uid_t uid);
struct group *__wrap_getgrnam(const char *name);
struct group *__real_getgrnam(const char *name);
struct group *__wrap_getgrgid(gid_t gid);
struct group *__real_getgrgid(gid_t gid);
uid_t __wrap_geteuid(void);
int __wrap_initgroups(const char *user, gid_t group);
int __wrap_setresgid(gid_t real, gid_t effective, gid_t saved);
int __wrap_setresuid(uid_t real, uid_t effective, uid_t saved);
char *__wrap_crypt_r(const char *phrase, const char *hash, struct crypt_data *data);

/* Time */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_getcpuclockid(pid_t pid, clockid_t *clock);
time_t __wrap_time(time_t *now);
int __wrap_usleep(useconds_t us);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_event_add(struct event *event, const struct timeval *timeout);
int __real_event_add(struct event *event, const struct timeval *timeout);
int __wrap_event_del(struct event *event);
int __real_event_del(struct event *event);
int __wrap_event_base_loop(struct event_base *base, int flags);
int __real_event_base_loop(struct event_base *base, int flags);

/* Files and sockets */
long __wrap_syscall(long number, ...);
long __real_syscall(long number, ...);
int __wrap_close_range(unsigned int first, unsigned int last, int flags);
int __real_close_range(unsigned int first, unsigned int last, int flags);
size_t __wrap_fwrite(const void *bytes, size_t size, size_t count, FILE *file);
size_t __real_fwrite(const void *bytes, size_t size, size_t count, FILE *file);
ssize_t __wrap_write(int fd, const void *bytes, size_t length);
ssize_t __real_write(int fd, const void *bytes, size_t length);
ssize_t __wrap_pread(int fd, void *buffer, size_t length, off_t offset);
ssize_t __wrap_preadv2(int fd, const struct iovec *pieces, int count, off_t offset, int flags);
ssize_t __real_preadv2(int fd, const struct iovec *pieces, int count, off_t offset, int flags);
ssize_t __wrap_readlink(const char *path, char *text, size_t size);
ssize_t __wrap_readlinkat(int directory, const char *name, char *buffer, size_t size);
ssize_t __real_readlinkat(int directory, const char *name, char *buffer, size_t size);
int __wrap_flock(int fd, int operation);
int __real_flock(int fd, int operation);
int __wrap_fstatvfs(int fd, struct statvfs *room);
int __real_fstatvfs(int fd, struct statvfs *room);
int __wrap_ioctl(int fd, unsigned long request, void *argument);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __real_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_shm_unlink(const char *name);
int __real_shm_unlink(const char *name);
int __wrap_socketpair(int domain, int type, int protocol, int fds[2]);
int __real_socketpair(int domain, int type, int protocol, int fds[2]);
int __wrap_accept4(int from, struct sockaddr *peer, socklen_t *length, int flags);
int __real_accept4(int from, struct sockaddr *peer, socklen_t *length, int flags);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length);
int __real_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int __real_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int __wrap_setsockopt(int fd, int level, int option, const void *value, socklen_t length);
ssize_t __wrap_send(int fd, const void *data, size_t length, int flags);
ssize_t __real_send(int fd, const void *data, size_t length, int flags);

/* NOLINTEND(clang-diagnostic-reserved-identifier) */

#endif
