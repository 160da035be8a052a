# An element of a list, held from the moment on at which it is read: another thread may take it out meanwhile.
cdef extern from *:
    """
    static inline PyObject *gh_item(PyObject *list, Py_ssize_t i) {
    #ifdef Py_GIL_DISABLED
      return PyList_GetItemRef(list, i); /* not in the stable ABI of 3.11 */
    #else
      PyObject *found = PyList_GetItem(list, i);
      Py_XINCREF(found);
      return found;
    #endif
    }
    """
    object item "gh_item"(list values, Py_ssize_t i)
