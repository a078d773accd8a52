/* SPDX-License-Identifier: BSD-2-Clause
 *
 * gcc's <stddef.h> looks for it where __FreeBSD__ is defined.
 */
#pragma once
