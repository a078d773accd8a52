/* SPDX-License-Identifier: BSD-2-Clause
 *
 * leaf.h - the lock under which jemalloc adds a leaf to its radix tree of extents, over a fork.
 *
 * jemalloc's fork handlers do not take it. As jemalloc comes, that does no harm: with retain:true a
 * thread that needs a leaf holds another lock (grow_mtx), which they do take. We turn retain off, and
 * place blocks that grow far apart, where leaves are needed more often. A child that was forked while
 * another thread was making a leaf would wait for ever, as soon as it needs one itself.
 *
 * So a lock of ours is held around it. It lies between those of extents and those of metadata (base),
 * and is taken between them: when jemalloc's handler comes to the first base.
 */
#ifndef PGW_ALLOC_LEAF_H
#define PGW_ALLOC_LEAF_H

/* Fork handlers, before jemalloc's own: while its locks are held nobody else is in here. They do nothing
 * if jemalloc's prepare handler was not called. */
void pgw__leaf_fork_parent(void);
void pgw__leaf_fork_child(void);

#endif
