/* SPDX-License-Identifier: BSD-2-Clause
 *
 * folder.h - names on the disk.
 */
#ifndef CHAIN_FOLDER_H
#define CHAIN_FOLDER_H

/* Make the names in the folder of path durable, path's own among them: by the whole file system where the
 * folder may not be opened. 0, or an errno. A file system that has no such thing (EINVAL) is no error. */
int folder_sync(const char *path);

#endif
